package gantry.interop;

import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** An admin client whose calls are told one a line. A step that throws is a line with its error, and the others still run. */
final class AdminSteps {
    /** A step's work: the value that its line gets. */
    interface Step {
        Object run() throws Exception;
    }

    final DefaultMQAdminExt admin = new DefaultMQAdminExt(20_000);

    AdminSteps(Args args, String instanceName) throws Exception {
        admin.setNamesrvAddr(args.need("namesrv"));
        admin.setInstanceName(instanceName);
        admin.start();
    }

    void step(String name, Step step) {
        try {
            Out.line(Out.row("step", name, "value", step.run()));
        } catch (Throwable t) {
            Out.line(Out.row("step", name, "failure", String.valueOf(t)));
        }
    }

    void end() {
        admin.shutdown();
        Out.line(Out.row("done", true));
    }
}
