// RocketMQ: AuthConfig. Nothing of it is built, so that each of its switches refuses the start.

import { later, mustBeOff, type SettingTable } from './setting.ts';

export const AUTH_SETTINGS: SettingTable = {
  part: 'access control',
  settings: [
    later('authenticationEnabled', 'bool', false, '', 'Whether clients must prove who they are.', {
      ...mustBeOff('clients would not be checked'),
    }),
    later('authorizationEnabled', 'bool', false, '', 'Whether clients may only do what they were granted.', {
      ...mustBeOff('permissions would not be checked'),
    }),
    later('migrateAuthFromV1Enabled', 'bool', false, '', 'Whether the old access file is taken over.', {
      ...mustBeOff('permissions would not be checked'),
    }),
    later('authConfigPath', 'text', null, '', 'Directory of users and permissions.'),
    later('configName', 'text', null, '', 'Java notes the name of the broker here.'),
    later('clusterName', 'text', null, '', 'Java notes the name of the cluster here.'),
    later('authenticationProvider', 'text', null, '', 'Java class that checks who a client is.'),
    later('authenticationMetadataProvider', 'text', null, '', 'Java class that keeps the users.'),
    later('authenticationStrategy', 'text', null, '', 'Java class that decides when they are checked.'),
    later('authenticationWhitelist', 'text', null, '', 'Requests that anyone may make.'),
    later('initAuthenticationUser', 'text', null, '', 'User that is made at the first start.'),
    later('innerClientAuthenticationCredentials', 'text', null, '', 'User that the brokers themselves are.'),
    later('authorizationProvider', 'text', null, '', 'Java class that checks permissions.'),
    later('authorizationMetadataProvider', 'text', null, '', 'Java class that keeps the permissions.'),
    later('authorizationStrategy', 'text', null, '', 'Java class that decides when they are checked.'),
    later('authorizationWhitelist', 'text', null, '', 'Requests that need no permission.'),
    later('userCacheMaxNum', 'int', 1000, 'users', 'Users kept in memory.'),
    later('userCacheExpiredSecond', 'int', 600, 's', 'How long a user is kept.'),
    later('userCacheRefreshSecond', 'int', 60, 's', 'How often a user is read again.'),
    later('aclCacheMaxNum', 'int', 1000, 'users', 'Permissions kept in memory.'),
    later('aclCacheExpiredSecond', 'int', 600, 's', 'How long permissions are kept.'),
    later('aclCacheRefreshSecond', 'int', 60, 's', 'How often permissions are read again.'),
    later('statefulAuthenticationCacheMaxNum', 'int', 10_000, 'connections', 'Checked connections kept in memory.'),
    later('statefulAuthenticationCacheExpiredSecond', 'int', 60, 's', 'How long they are kept.'),
    later('statefulAuthorizationCacheMaxNum', 'int', 10_000, 'connections', 'Checked permissions kept in memory.'),
    later('statefulAuthorizationCacheExpiredSecond', 'int', 60, 's', 'How long they are kept.'),
  ],
};
