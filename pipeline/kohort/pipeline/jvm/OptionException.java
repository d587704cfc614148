package kohort.spark;

/** An option that does not exist, is missing, or has a value that it can't have. */
final class OptionException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    OptionException(String message) {
        super(message);
    }
}
