package gantry.interop;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * What RocketMQ's own filter says of a table of expressions and messages: --file names a JSON file with `expressions` and `messages`. For each
 * expression one letter a message (T, F, N for null, X for an exception), or the text of the error.
 */
final class FilterTable {
    static void run(Args args) throws Exception {
        byte[] bytes = Files.readAllBytes(Paths.get(args.need("file")));
        JSONObject table = JSON.parseObject(new String(bytes, StandardCharsets.UTF_8));
        List<JSONObject> messages = table.getList("messages", JSONObject.class);
        for (String text : table.getList("expressions", String.class)) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("expression", text);
            try {
                Expression expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
                StringBuilder verdicts = new StringBuilder();
                for (JSONObject message : messages) {
                    verdicts.append(verdict(expression, message));
                }
                row.put("verdicts", verdicts.toString());
            } catch (Exception e) {
                row.put("error", String.valueOf(e.getMessage()));
            }
            Out.line(row);
        }
    }

    private static char verdict(Expression expression, JSONObject message) {
        Map<String, String> properties = new LinkedHashMap<>();
        message.forEach((name, value) -> properties.put(name, String.valueOf(value)));
        try {
            Object result = expression.evaluate(new MessageEvaluationContext(properties));
            return result == null ? 'N' : Boolean.TRUE.equals(result) ? 'T' : Boolean.FALSE.equals(result) ? 'F' : 'X';
        } catch (Throwable e) {
            return 'X';
        }
    }

    private FilterTable() {
    }
}
