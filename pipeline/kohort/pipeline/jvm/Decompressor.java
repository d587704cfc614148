package kohort.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.zip.GZIPInputStream;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdDecompressCtx;
import com.github.luben.zstd.ZstdException;
import net.jpountz.lz4.LZ4FrameInputStream;
import org.xerial.snappy.Snappy;

/** Decompressed records, in the same place batch after batch. */
final class Decompressor {
    private static final int GZIP = 1;
    private static final int SNAPPY = 2;
    private static final int LZ4 = 3;
    private static final int ZSTD = 4;
    private static final int MOST_BYTES = 128 << 20;
    private static final int XERIAL_HEADER_BYTES = 16;
    private static final byte[] XERIAL_MAGIC = {(byte) 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

    byte[] data = new byte[64 << 10];
    private ZstdDecompressCtx zstd;

    /** Decompress into {@code data}; return how many bytes there are. Each codec has errors of its own. */
    int read(int codec, byte[] from, int begin, int size) throws IOException {
        try {
            return readWith(codec, from, begin, size);
        } catch (RuntimeException damaged) {
            throw new IOException(damaged);
        }
    }

    private int readWith(int codec, byte[] from, int begin, int size) throws IOException {
        switch (codec) {
            case GZIP:
                return readStream(new GZIPInputStream(new ByteArrayInputStream(from, begin, size)));
            case SNAPPY:
                return readSnappy(from, begin, size);
            case LZ4:
                return readLz4(from, begin, size);
            case ZSTD:
                return readZstd(from, begin, size);
            default:
                throw new IOException("an unknown codec");
        }
    }

    void close() {
        if (zstd != null) {
            zstd.close();
            zstd = null;
        }
    }

    private int readZstd(byte[] from, int begin, int size) throws IOException {
        if (zstd == null) {
            zstd = new ZstdDecompressCtx();
        }
        while (true) {
            try { // Frames that were streamed do not say what size they have.
                return zstd.decompressByteArray(data, 0, data.length, from, begin, size);
            } catch (ZstdException error) {
                if (error.getErrorCode() != Zstd.errDstSizeTooSmall()) {
                    throw error;
                }
                growSome(0);
            }
        }
    }

    private int readLz4(byte[] from, int begin, int size) throws IOException {
        if (!LinkedLz4.isLinked(from, begin, size)) {
            return readStream(new LZ4FrameInputStream(new ByteArrayInputStream(from, begin, size), true));
        }
        LinkedLz4 frame = new LinkedLz4(from, begin, size);
        int done = 0;
        for (int block = frame.next(); block > 0; block = frame.next()) {
            grow(Math.min(MOST_BYTES, done + frame.mostBytes), done);
            done = frame.read(block, data, done);
        }
        frame.checkContent(data, done);
        return done;
    }

    /** Kafka's Java client writes blocks behind a header, librdkafka may write one block and no header. */
    private int readSnappy(byte[] from, int begin, int size) throws IOException {
        int end = begin + size;
        for (int n = 0; n < XERIAL_MAGIC.length; n++) {
            if (size <= n || from[begin + n] != XERIAL_MAGIC[n]) {
                grow(Snappy.uncompressedLength(from, begin, size), 0);
                return Snappy.uncompress(from, begin, size, data, 0);
            }
        }
        int done = 0;
        int place = begin + XERIAL_HEADER_BYTES;
        while (place < end) {
            int block = ByteBuffer.wrap(from, place, 4).getInt();
            place += 4;
            if (block < 0 || block > end - place) {
                throw new IOException("a block ends early");
            }
            grow(done + Snappy.uncompressedLength(from, place, block), done);
            done += Snappy.uncompress(from, place, block, data, done);
            place += block;
        }
        return done;
    }

    private int readStream(InputStream stream) throws IOException {
        int done = 0;
        while (true) {
            int read = stream.read(data, done, data.length - done);
            if (read < 0) {
                stream.close();
                return done;
            }
            done += read;
            if (done == data.length) {
                growSome(done);
            }
        }
    }

    /** Make room for more, of which nobody has said how much; there is an end to it. */
    private void growSome(int kept) throws IOException {
        grow(data.length < MOST_BYTES ? Math.min(MOST_BYTES, data.length * 2) : MOST_BYTES + 1, kept);
    }

    private void grow(int needed, int kept) throws IOException {
        if (needed > MOST_BYTES) {
            throw new IOException("more data than a batch may hold");
        }
        if (needed > data.length) {
            byte[] larger = new byte[Math.min(MOST_BYTES, Math.max(needed, data.length * 2))];
            System.arraycopy(data, 0, larger, 0, kept);
            data = larger;
        }
    }
}
