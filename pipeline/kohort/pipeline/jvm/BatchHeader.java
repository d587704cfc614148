package kohort.spark;

/** Where the fields of a record batch's header lie, and what its attributes say (KIP-98). */
final class BatchHeader {
    static final int BYTES = 61;
    static final int LOG_OVERHEAD_BYTES = 12;
    static final int MAGIC = 2;
    static final int LENGTH_AT = 8;
    static final int MAGIC_AT = 16;
    static final int CRC_AT = 17;
    static final int ATTRIBUTES_AT = 21;
    static final int LAST_OFFSET_DELTA_AT = 23;
    static final int BASE_TIMESTAMP_AT = 27;
    static final int MAX_TIMESTAMP_AT = 35;
    static final int PRODUCER_ID_AT = 43;
    static final int COUNT_AT = 57;
    static final int CODEC_MASK = 7;
    static final int APPEND_TIME = 8;
    static final int TRANSACTIONAL = 16;
    static final int CONTROL = 32;

    private BatchHeader() {}
}
