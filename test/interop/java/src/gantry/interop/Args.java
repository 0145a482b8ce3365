package gantry.interop;

import java.util.HashMap;
import java.util.Map;

/** The options of a sub-command: pairs of {@code --name value}. */
final class Args {
    private final Map<String, String> values = new HashMap<>();

    Args(String[] words, int from) {
        for (int i = from; i + 1 < words.length; i += 2) {
            if (!words[i].startsWith("--")) {
                throw new IllegalArgumentException("not an option: " + words[i]);
            }
            values.put(words[i].substring(2), words[i + 1]);
        }
    }

    /** A value that the caller must have given. */
    String need(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    String text(String name, String other) {
        return values.getOrDefault(name, other);
    }

    int number(String name, int other) {
        String value = values.get(name);
        return value == null ? other : Integer.parseInt(value);
    }

    boolean flag(String name) {
        return Boolean.parseBoolean(values.get(name));
    }

    /** A list with commas; empty if it was not given. */
    String[] list(String name) {
        String value = values.get(name);
        return value == null || value.isEmpty() ? new String[0] : value.split(",");
    }
}
