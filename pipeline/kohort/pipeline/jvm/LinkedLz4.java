package kohort.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

import net.jpountz.xxhash.XXHash32;
import net.jpountz.xxhash.XXHashFactory;

/**
 * An LZ4 frame whose blocks refer to those before them, as lz4's own library writes it unless told otherwise.
 *
 * <p>The Java library that Spark has refuses such. What ends early is an {@code IndexOutOfBoundsException} or a
 * {@code BufferUnderflowException}. Source: doc/lz4_Frame_format.md, doc/lz4_Block_format.md of lz4.
 */
final class LinkedLz4 {
    private static final int MAGIC = 0x184D2204;
    private static final int FLAGS_AT = 4;
    private static final int VERSION_MASK = 0xC0;
    private static final int VERSION = 0x40;
    private static final int INDEPENDENT = 0x20;
    private static final int BLOCK_CHECKSUMS = 0x10;
    private static final int CONTENT_SIZE = 0x08;
    private static final int CONTENT_CHECKSUM = 0x04;
    private static final int DICTIONARY = 0x01;
    private static final int STORED = 0x80000000;
    private static final int LEAST_MATCH = 4;

    /** How much a block may hold. */
    final int mostBytes;
    private final byte[] from;
    private final ByteBuffer frame;
    private final int flags;
    private boolean isStored;
    private int at;
    private final XXHash32 hash = XXHashFactory.fastestInstance().hash32();

    LinkedLz4(byte[] from, int begin, int size) throws IOException {
        this.from = from;
        frame = ByteBuffer.wrap(from, begin, size).order(ByteOrder.LITTLE_ENDIAN);
        frame.position(begin + FLAGS_AT);
        flags = frame.get();
        int blockSize = frame.get() >> 4 & 7;
        if ((flags & DICTIONARY) != 0 || blockSize < 4) {
            throw new IOException("an LZ4 frame with a dictionary, or with blocks of no known size");
        }
        mostBytes = 1 << 8 + 2 * blockSize;
        if ((flags & CONTENT_SIZE) != 0) {
            frame.getLong();
        }
        int described = frame.position() - begin - FLAGS_AT;
        int told = frame.get() & 255;
        if ((hash.hash(from, begin + FLAGS_AT, described, 0) >>> 8 & 255) != told) {
            throw new IOException("an LZ4 frame whose header does not have the checksum that it says");
        }
    }

    /** Return whether it is such a frame. */
    static boolean isLinked(byte[] from, int begin, int size) {
        if (size <= FLAGS_AT) {
            return false;
        }
        int magic = ByteBuffer.wrap(from).order(ByteOrder.LITTLE_ENDIAN).getInt(begin);
        return magic == MAGIC && (from[begin + FLAGS_AT] & (VERSION_MASK | INDEPENDENT)) == VERSION;
    }

    /** Return how long the next block is, 0 behind the last. */
    int next() throws IOException {
        int told = frame.getInt();
        int size = told & ~STORED;
        if (size > mostBytes || size > frame.remaining()) {
            throw new IOException("a block ends early");
        }
        isStored = (told & STORED) != 0;
        return size;
    }

    /** Put the block behind those before it; return where it ends. */
    int read(int size, byte[] target, int done) throws IOException {
        int begin = frame.position();
        frame.position(begin + size);
        if ((flags & BLOCK_CHECKSUMS) != 0 && hash.hash(from, begin, size, 0) != frame.getInt()) {
            throw new IOException("a block does not have the checksum that it says");
        }
        if (isStored) {
            System.arraycopy(from, begin, target, done, size);
            return done + size;
        }
        return decode(begin, begin + size, target, done);
    }

    /** Look at the checksum of all that came out, where there is one. */
    void checkContent(byte[] data, int size) throws IOException {
        if ((flags & CONTENT_CHECKSUM) != 0 && hash.hash(data, 0, size, 0) != frame.getInt()) {
            throw new IOException("the content does not have the checksum that it says");
        }
    }

    /** Each sequence: a token with two lengths, literals, and how far back a match lies; the last has no match. */
    private int decode(int begin, int end, byte[] target, int done) throws IOException {
        int most = done + mostBytes;
        at = begin;
        int out = done;
        while (at < end) {
            int token = from[at++] & 255;
            int literals = length(token >>> 4, end);
            if (literals > end - at || literals > most - out) {
                throw new IOException("literals end early");
            }
            System.arraycopy(from, at, target, out, literals);
            at += literals;
            out += literals;
            if (at == end) {
                return out;
            }
            int back = from[at] & 255 | (from[at + 1] & 255) << 8;
            at += 2;
            int match = length(token & 15, end) + LEAST_MATCH;
            if (back == 0 || back > out || match > most - out) {
                throw new IOException("a match lies outside");
            }
            for (int stop = out + match; out < stop; out++) { // It may overlap with what it makes.
                target[out] = target[out - back];
            }
        }
        throw new IOException("a block without literals at its end");
    }

    /** Return a length: 15 goes on in the bytes that follow, as long as they are 255. */
    private int length(int told, int end) {
        int found = told;
        for (int more = told == 15 ? 255 : 0; more == 255 && at < end;) {
            more = from[at++] & 255;
            found += more;
        }
        return found;
    }
}
