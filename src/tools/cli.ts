// The command line. Only what a command needs is loaded when it runs, so that --help answers at once and a start does not pay for
// the client. Usage errors end with exit code 2 and one line; everything else is the command's own affair.

import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import type { ConsumeOptions } from './consume.ts';
import { ExitCode, reportFailure } from './exit.ts';
import { packageVersion } from './package-version.ts';
import type { ProduceOptions } from './produce.ts';
import type { ReplayCommandOptions } from './replay.ts';
import type { BrokerOptions, ServerOptions } from './server-settings.ts';
import type { StartOptions } from './start.ts';
import type { StoreVerifyOptions } from './store-verify.ts';
import type { TransactionAction, TransactionOptions } from './transactions.ts';

/** Runs the command line and answers the exit code. `args` are those behind the program's name. */
export async function main(args: readonly string[]): Promise<number> {
  // A reader that has gone, such as `head`, is no reason to stop a server or to leave messages unsent.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', throwUnlessPipe);
  let exitCode: number = ExitCode.OK;
  const program = buildProgram((code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync([...args], { from: 'user' });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) return reportFailure(error);
    // Help and version end here too, with code 0 when they were asked for.
    return error.exitCode === 0 ? ExitCode.OK : ExitCode.USAGE;
  }
}

function throwUnlessPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
}

const EXIT_CODES = `
Exit codes:
  0  done, or stopped by a signal in good order
  1  could not start, or what was asked for did not happen; one line on stderr says why
  2  the command line cannot be understood`;

function buildProgram(ends: (exitCode: number) => void): Command {
  const program = new Command('gantry')
    .description("RocketMQ's broker and name server on Node: the same files, the same protocol, no JVM.")
    .version(packageVersion(), '-v, --version', 'print the version')
    .helpCommand('help [command]', 'print the help of a command')
    .showHelpAfterError(false)
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(usageLine(text)) })
    .addHelpText(
      'after',
      `${EXIT_CODES}

Examples:
  gantry start                                  name server and broker, here and now
  gantry produce greetings "hello"              send a message
  gantry consume greetings --group readers --from-start
  gantry broker -c broker.conf -n 10.0.0.1:9876`,
    );
  addStart(program, ends);
  addNamesrv(program, ends);
  addBroker(program, ends);
  addProduce(program, ends);
  addConsume(program, ends);
  addTransactions(program, ends);
  addReplay(program, ends);
  addStore(program, ends);
  addConfig(program);
  return program;
}

/** "error: unknown option '--prot'\n(Did you mean --port?)" as one line. */
function usageLine(text: string): string {
  const line = text
    .trim()
    .replace(/^error: /, '')
    .replace(/\s*\n\s*/g, ' ')
    .replace(/\.$/, '');
  return `gantry: ${line}; see --help\n`;
}

function command(program: Command, name: string, description: string): Command {
  return program.command(name).description(description);
}

function addServerOptions(cmd: Command, port: string): Command {
  return cmd
    .option('-c, --configFile <file>', "read RocketMQ's configuration file")
    .option('-p, --printConfigItem', 'print all settings in force, and exit')
    .option('--host <address>', 'listen on this address; 0.0.0.0 means all of this machine')
    .option('--port <port>', port)
    .option('--strict', 'refuse unknown settings instead of warning')
    .option('--log-json', 'log lines of JSON')
    .addOption(
      new Option('--log-level <level>', 'least level that is logged')
        .choices(['debug', 'info', 'warn', 'error'])
        .default('info'),
    );
}

function addBrokerOptions(cmd: Command): Command {
  return cmd
    .option('-n, --namesrvAddr <addresses>', 'register with these name servers: host:port;host:port')
    .option('-m, --printImportantConfig', 'print the important settings in force, and exit')
    .option('--store <directory>', 'keep the store here (default: ./gantry-data, or ~/store with -c)')
    .option('--advertise <host[:port]>', 'tell clients to connect here; also GANTRY_ADVERTISE in the environment');
}

function addStart(program: Command, ends: (exitCode: number) => void): void {
  addBrokerOptions(
    addServerOptions(
      command(program, 'start', 'Start a name server and a broker in one process.'),
      'port of the broker (default: 10911)',
    ),
  )
    .option('--namesrv-port <port>', 'port of the name server (default: 9876)')
    .option('--namesrv-config <file>', "read RocketMQ's configuration file of a name server")
    .addHelpText(
      'after',
      `
Without -c, --host or --advertise both listen on 127.0.0.1, and clients on this machine connect.

Examples:
  gantry start
  gantry start --store /var/lib/mq --host 0.0.0.0
  gantry start -c broker.conf
  docker run -p 9876:9876 -p 10911:10911 -e GANTRY_ADVERTISE=localhost ...`,
    )
    .action(async (options: StartOptions) => {
      const { start } = await import('./start.ts');
      ends(await start(options, process.env));
    });
}

function addNamesrv(program: Command, ends: (exitCode: number) => void): void {
  addServerOptions(command(program, 'namesrv', 'Start a name server.'), 'port (default: 9876)')
    .addHelpText(
      'after',
      `
Examples:
  gantry namesrv
  gantry namesrv -c namesrv.conf --port 9877`,
    )
    .action(async (options: ServerOptions) => {
      const { startNamesrv } = await import('./start.ts');
      ends(await startNamesrv(options));
    });
}

function addBroker(program: Command, ends: (exitCode: number) => void): void {
  addBrokerOptions(addServerOptions(command(program, 'broker', 'Start a broker.'), 'port (default: 10911)'))
    .addHelpText(
      'after',
      `
Examples:
  gantry broker -n 10.0.0.1:9876
  gantry broker -c broker.conf
  gantry broker -c broker.conf -m`,
    )
    .action(async (options: BrokerOptions) => {
      const { startBroker } = await import('./start.ts');
      ends(await startBroker(options, process.env));
    });
}

function addProduce(program: Command, ends: (exitCode: number) => void): void {
  command(program, 'produce', 'Send messages: BODY, or every line of standard input.')
    .argument('<topic>', 'topic to send to; a broker creates it if it may')
    .argument('[body]', 'text of one message; - or nothing reads lines')
    .option('-n, --namesrvAddr <addresses>', 'name servers (default: NAMESRV_ADDR, or 127.0.0.1:9876)')
    .option('--tags <tag>', 'tag by which consumers filter')
    .option('--keys <keys>', 'keys by which messages are found, with blanks between them')
    .option('--property <name=value>', 'property of the message; may be repeated', collect, [])
    .option('--delay-level <level>', 'deliver later: 1 is 1 s, 2 is 5 s, ... 18 is 2 h', wholeNumber)
    .option('--sharding-key <key>', 'send all to the queue of this key, so that they keep their order')
    .option('--group <group>', 'producer group', 'PID_gantry_cli')
    .option('--json', 'print results as lines of JSON')
    .option('--quiet', 'print no results')
    .addHelpText(
      'after',
      `
Prints a line for every message: its id, then broker, queue and offset.

Examples:
  gantry produce greetings "hello"
  cat orders.jsonl | gantry produce orders --tags new
  gantry produce orders - --sharding-key customer-17 < events.txt`,
    )
    .action(async (topic: string, body: string | undefined, options: ProduceOptions) => {
      const { produce } = await import('./produce.ts');
      ends(await produce(topic, body, options));
    });
}

function addConsume(program: Command, ends: (exitCode: number) => void): void {
  command(program, 'consume', 'Print the messages of a topic, one a line.')
    .argument('<topic>', 'topic to read')
    .requiredOption(
      '--group <group>',
      'consumer group; its members share the messages, and it goes on where it stopped',
    )
    .option('-n, --namesrvAddr <addresses>', 'name servers (default: NAMESRV_ADDR, or 127.0.0.1:9876)')
    .option('--from-start', 'let a new group begin with the first message; otherwise it begins with the next')
    .option('--tags <expression>', 'only messages with these tags: "a || b"')
    .option('--count <n>', 'end after so many messages', wholeNumber)
    .option('--json', 'print whole messages as lines of JSON')
    .option('--pop', 'take messages from any queue and acknowledge each (pop), instead of sharing out the queues')
    .addHelpText(
      'after',
      `
Examples:
  gantry consume greetings --group readers --from-start
  gantry consume jobs --group workers --from-start --pop
  gantry consume orders --group audit --tags "new || paid" --json
  gantry consume orders --group one-shot --from-start --count 10`,
    )
    .action(async (topic: string, options: ConsumeOptions) => {
      const { consume } = await import('./consume.ts');
      ends(await consume(topic, options));
    });
}

const TRANSACTION_ACTIONS: ReadonlyArray<[TransactionAction, string]> = [
  ['list', 'Print the transactions that are neither committed nor rolled back.'],
  ['commit', 'Commit open transactions: their messages are delivered.'],
  ['rollback', 'Roll open transactions back: their messages are never delivered.'],
  ['recheck', 'Have the producers asked anew, also about transactions that were given up.'],
];

function addTransactions(program: Command, ends: (exitCode: number) => void): void {
  const group = command(program, 'transactions', 'Look at open transactions, and end them.');
  for (const [action, description] of TRANSACTION_ACTIONS) {
    const cmd = group
      .command(action)
      .description(description)
      .option('-n, --namesrvAddr <addresses>', 'name servers (default: NAMESRV_ADDR, or 127.0.0.1:9876)')
      .option('-b, --broker <host:port>', 'this broker alone')
      .option('--json', 'print lines of JSON');
    if (action === 'list') cmd.option('--parked', 'those that were given up, instead');
    else cmd.argument('<id...>', 'ids that list prints');
    cmd.addHelpText(
      'after',
      `
Ends of the last seconds may be missing: a broker notes them together.

Examples:
  gantry transactions list --json
  gantry transactions commit 7F000001131F4E0E2F2A952FD45D0010 -b 10.0.0.1:10911
  gantry transactions recheck 7F000001131F4E0E2F2A952FD45D0010`,
    );
    cmd.action(async (...words: unknown[]) => {
      const { transactions } = await import('./transactions.ts');
      const ids = action === 'list' ? [] : (words[0] as string[]);
      ends(await transactions(action, ids, words[action === 'list' ? 0 : 1] as TransactionOptions));
    });
  }
}

function addReplay(program: Command, ends: (exitCode: number) => void): void {
  command(program, 'replay', 'Send the dead letters of a consumer group again, with their ids and keys.')
    .argument('<group>', 'consumer group that gave them up')
    .option('-n, --namesrvAddr <addresses>', 'name servers (default: NAMESRV_ADDR, or 127.0.0.1:9876)')
    .option('--to <topic>', 'send them to this topic, for all its groups; otherwise only to the group itself')
    .option('--count <n>', 'end after so many messages', wholeNumber)
    .option('--quiet', 'print no results')
    .addHelpText(
      'after',
      `
Dead letters stay where they are, and the next replay begins behind those that were sent. A group that consumes in order gets them
by --to only.

Examples:
  gantry replay GID_orders
  gantry replay GID_orders --to orders --count 10`,
    )
    .action(async (group: string, options: ReplayCommandOptions) => {
      const { replay } = await import('./replay.ts');
      ends(await replay(group, options));
    });
}

function addStore(program: Command, ends: (exitCode: number) => void): void {
  const store = command(program, 'store', 'Look at the files of a store, and mend them.');
  for (const name of ['verify', 'repair'] as const) {
    store
      .command(name)
      .description(
        name === 'verify'
          ? 'Hold every record of the log and all that is derived from it against each other: queues, index, timer, compaction logs; nothing is changed.'
          : 'As verify, and move what is damaged of that which is derived to gantry/derived-damaged: the next start builds it again from the log.',
      )
      .argument('<directory>', 'the store; nobody may have it open')
      .option('--storePathCommitLog <directory>', 'where the log lies (default: commitlog in the store)')
      .option('--maxHashSlotNum <n>', 'what index files were made with (default: 5000000)')
      .option('--maxIndexNum <n>', 'what index files were made with (default: 20000000)')
      .option('--messageDelayLevel <levels>', "what delayed messages were taken with (default: RocketMQ's)")
      .option('--timerPrecisionMs <ms>', 'what timers were taken with (default: 1000)')
      .option('--json', 'print JSON')
      .addHelpText(
        'after',
        `
Exit code 1: something is damaged${name === 'repair' ? ' that cannot be built again' : ''}.

Examples:
  gantry store ${name} ~/store
  gantry store ${name} /var/lib/mq --json`,
      )
      .action(async (directory: string, options: StoreVerifyOptions) => {
        const { storeVerify } = await import('./store-verify.ts');
        ends(await storeVerify(directory, options, name === 'repair'));
      });
  }
  store
    .command('compaction')
    .description('List the compaction logs of a store, and check every record of them.')
    .argument('<directory>', 'the store')
    .option('--json', 'print lines of JSON')
    .addHelpText(
      'after',
      `
The store may be in use; what is written meanwhile may then look unfinished. Exit code 1: something is damaged.

Examples:
  gantry store compaction ~/store
  gantry store compaction /var/lib/mq --json`,
    )
    .action(async (directory: string, options: { json?: boolean }) => {
      const { storeCompaction } = await import('./store-compaction.ts');
      ends(storeCompaction(directory, options.json === true));
    });
}

function addConfig(program: Command): void {
  const config = command(program, 'config', 'Look at settings.');
  config
    .command('explain')
    .description('Say what a setting means, its value, where that comes from, and whether it can be changed.')
    .argument('<key>', 'the setting')
    .option('-c, --configFile <file>', "read RocketMQ's configuration file")
    .option('--namesrv', 'a setting of the name server')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Examples:
  gantry config explain flushDiskType
  gantry config explain fileReservedTime -c broker.conf --json`,
    )
    .action(async (key: string, options: { configFile?: string; namesrv?: boolean; json?: boolean }) => {
      const { explain } = await import('./explain.ts');
      process.stdout.write(explain(key, options));
    });
}

function collect(value: string, previous: string[]): string[] {
  if (!/^[^=]+=/.test(value)) throw new InvalidArgumentError('It must be NAME=VALUE.');
  return [...previous, value];
}

function wholeNumber(value: string): number {
  if (!/^\d+$/.test(value) || !Number.isSafeInteger(Number(value)) || Number(value) < 1) {
    throw new InvalidArgumentError('It must be a whole number, at least 1.');
  }
  return Number(value);
}
