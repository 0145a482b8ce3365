package gantry.interop;

/**
 * The Java side of the interop suite: one sub-command a run, JSON lines on standard output, exit code 0 unless the
 * sub-command threw. What a broker answered wrongly is in the lines, not in the exit code.
 */
public final class Main {
    private Main() {
    }

    public static void main(String[] words) {
        int exit = 0;
        try {
            Args args = new Args(words, 1);
            switch (words.length == 0 ? "" : words[0]) {
                case "produce":
                    Produce.run(args);
                    break;
                case "transact":
                    Transact.run(args);
                    break;
                case "recall":
                    Recall.run(args);
                    break;
                case "load":
                    Load.run(args);
                    break;
                case "consume":
                    Consume.run(args);
                    break;
                case "starts":
                    Starts.run(args);
                    break;
                case "pop":
                    Pop.run(args);
                    break;
                case "pull":
                    Pull.run(args);
                    break;
                case "lite-pull":
                    LitePull.run(args);
                    break;
                case "admin":
                    Admin.run(args);
                    break;
                case "lite":
                    Lite.run(args);
                    break;
                case "drain":
                    Drain.run(args);
                    break;
                case "filter-table":
                    FilterTable.run(args);
                    break;
                case "offsets":
                    Offsets.run(args);
                    break;
                case "group-admin":
                    GroupAdmin.run(args);
                    break;
                case "request-reply":
                    RequestReply.run(args);
                    break;
                case "store":
                    StoreDump.run(args);
                    break;
                default:
                    throw new IllegalArgumentException("unknown sub-command");
            }
        } catch (Throwable t) {
            t.printStackTrace();
            Out.line(Out.row("error", String.valueOf(t)));
            exit = 1;
        }
        // Client threads that linger must not keep the process.
        Runtime.getRuntime().halt(exit);
    }
}
