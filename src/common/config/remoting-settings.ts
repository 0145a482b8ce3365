// RocketMQ: NettyServerConfig, NettyClientConfig and TlsSystemConfig. RocketMQ takes the tls.* keys from system properties or a
// file of their own; here they may stand in the configuration file too, so that nobody believes in encryption that is not there.

import { honoured, later, moot, mustBeEmpty, mustBeOff, type SettingTable } from './setting.ts';

export const SERVER_SETTINGS: SettingTable = {
  part: 'listening side',
  settings: [
    honoured(
      'bindAddress',
      'text',
      '0.0.0.0',
      '',
      'Address that the ports listen on; 0.0.0.0 means all of the machine.',
    ),
    later(
      'serverChannelMaxIdleTimeSeconds',
      'int',
      120,
      's',
      'Silence after which a connection is closed; here 120 s.',
      { min: 1 },
    ),
    later('serverSocketSndBufSize', 'int', 0, 'bytes', 'Send buffer of a connection; 0 leaves it to the system.'),
    later('serverSocketRcvBufSize', 'int', 0, 'bytes', 'Receive buffer of a connection; 0 leaves it to the system.'),
    later('writeBufferHighWaterMark', 'int', 0, 'bytes', 'Unsent bytes from which a connection counts as slow.'),
    later('writeBufferLowWaterMark', 'int', 0, 'bytes', 'Unsent bytes from which it no longer does.'),
    later('serverSocketBacklog', 'int', 1024, 'connections', 'Connections that wait to be accepted.'),
    later('enableShutdownGracefully', 'bool', false, '', 'Whether clients are told to go before a stop.'),
    later('shutdownWaitTimeSeconds', 'int', 30, 's', 'How long a stop waits for them.'),
    later('serverOnewaySemaphoreValue', 'int', 256, 'requests', 'One-way requests to clients under way.'),
    later('serverAsyncSemaphoreValue', 'int', 64, 'requests', 'Other requests to clients under way.'),
    moot('serverWorkerThreads', 'int', 8, 'threads', 'Java: threads that decode.'),
    moot('serverCallbackExecutorThreads', 'int', 0, 'threads', 'Java: threads for answers.'),
    moot('serverSelectorThreads', 'int', 3, 'threads', 'Java: threads that watch sockets.'),
    moot('serverNettyWorkerGroupEnable', 'bool', true, '', 'Java: whether those threads are used.'),
    moot('serverPooledByteBufAllocatorEnable', 'bool', true, '', 'Java: whether buffers are pooled.'),
    moot('useEpollNativeSelector', 'bool', false, '', 'Java: how sockets are watched.'),
  ],
};

export const CLIENT_SETTINGS: SettingTable = {
  part: 'connections to other servers',
  settings: [
    later('connectTimeoutMillis', 'int', 3000, 'ms', 'How long connecting to another server may take.'),
    later('channelNotActiveInterval', 'long', 60_000, 'ms', 'RocketMQ declares it and never reads it.'),
    later('isScanAvailableNameSrv', 'bool', true, '', 'Whether name servers are tried in the background.'),
    later('scanAvailableNameSrv', 'bool', true, '', 'The same under the name by which it is set.'),
    later('clientChannelMaxIdleTimeSeconds', 'int', 120, 's', 'Silence after which a connection is closed.'),
    later('clientSocketSndBufSize', 'int', 0, 'bytes', 'Send buffer; 0 leaves it to the system.'),
    later('clientSocketRcvBufSize', 'int', 0, 'bytes', 'Receive buffer; 0 leaves it to the system.'),
    later('clientCloseSocketIfTimeout', 'bool', true, '', 'Whether a request without an answer closes its connection.'),
    later('clientOnewaySemaphoreValue', 'int', 65_535, 'requests', 'One-way requests under way.'),
    later('clientAsyncSemaphoreValue', 'int', 65_535, 'requests', 'Other requests under way.'),
    later('maxReconnectIntervalTimeSeconds', 'long', 60, 's', 'Longest pause before connecting again.'),
    later('enableReconnectForGoAway', 'bool', true, '', 'Whether it connects anew when a server asks for that.'),
    later('useTLS', 'bool', false, '', 'Whether other servers are spoken to with TLS.', {
      ...mustBeOff('the connections would not be encrypted'),
    }),
    later('socksProxyConfig', 'text', '{}', '', 'Proxies by address.'),
    moot('clientWorkerThreads', 'int', 4, 'threads', 'Java: threads that decode.'),
    moot('clientCallbackExecutorThreads', 'int', null, 'threads', 'Java: threads for answers.'),
    moot('clientPooledByteBufAllocatorEnable', 'bool', false, '', 'Java: whether buffers are pooled.'),
    moot('disableCallbackExecutor', 'bool', false, '', 'Java: whether those threads are left out.'),
    moot('disableNettyWorkerGroup', 'bool', false, '', 'Java: whether those threads are left out.'),
  ],
};

const NOT_ENCRYPTED = 'the ports would not be encrypted';

export const TLS_SETTINGS: SettingTable = {
  part: 'TLS',
  settings: [
    later(
      'tls.server.mode',
      ['disabled', 'permissive', 'enforcing'],
      'permissive',
      '',
      'Whether the ports speak TLS: never, if the client does, or only that.',
      { guard: { passes: (value) => value !== 'enforcing', why: NOT_ENCRYPTED } },
    ),
    later(
      'tls.server.need.client.auth',
      ['none', 'optional', 'require'],
      'none',
      '',
      'Whether clients show a certificate.',
      {
        guard: { passes: (value) => value !== 'require', why: 'clients would not be checked' },
      },
    ),
    later('tls.server.authClient', 'bool', false, '', 'Whether certificates of clients are checked.', {
      ...mustBeOff('clients would not be checked'),
    }),
    later('tls.enable', 'bool', false, '', 'Whether other servers are spoken to with TLS.', {
      ...mustBeOff('the connections would not be encrypted'),
    }),
    later('tls.test.mode.enable', 'bool', true, '', 'Whether a certificate is made up.'),
    later('tls.config.file', 'text', '/etc/rocketmq/tls.properties', '', 'File with these settings.', {
      guard: {
        passes: (value) => value === '/etc/rocketmq/tls.properties',
        why: `it is not read, so that ${NOT_ENCRYPTED}`,
      },
    }),
    later('tls.server.keyPath', 'text', null, '', 'Private key of the ports.', mustBeEmpty(NOT_ENCRYPTED)),
    later('tls.server.keyPassword', 'text', null, '', 'Its password.', mustBeEmpty(NOT_ENCRYPTED)),
    later('tls.server.certPath', 'text', null, '', 'Certificate of the ports.', mustBeEmpty(NOT_ENCRYPTED)),
    later('tls.server.trustCertPath', 'text', null, '', 'Certificates that clients must be signed by.', {
      ...mustBeEmpty('clients would not be checked'),
    }),
    later('tls.client.keyPath', 'text', null, '', 'Private key for connections to other servers.'),
    later('tls.client.keyPassword', 'text', null, '', 'Its password.'),
    later('tls.client.certPath', 'text', null, '', 'Certificate for such connections.'),
    later('tls.client.authServer', 'bool', false, '', 'Whether certificates of other servers are checked.'),
    later('tls.client.trustCertPath', 'text', null, '', 'Certificates that they must be signed by.'),
    later('tls.ciphers', 'text', null, '', 'Ciphers that are allowed.'),
    later('tls.protocols', 'text', null, '', 'Versions that are allowed.'),
  ],
};
