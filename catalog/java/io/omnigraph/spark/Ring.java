package io.omnigraph.spark;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.arrow.memory.util.MemoryUtil;

/**
 * Memory that one Python worker shares with this process: it writes batches there, Spark reads them
 * in place, and a mark gives their place back.
 *
 * <p>It has no name in any file system and lives as long as the worker or a mapping of it does, so
 * a crash of either side leaves nothing behind. A mapping is kept until nobody reads from it: the
 * worker's next task finds it here, unless the garbage collector was first.
 */
final class Ring {
  /** Cells of the header: one says that it was mapped, the others which places are in use. */
  private static final int CELL = 64;

  private static final VarHandle MARK =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final Map<String, WeakReference<Ring>> RINGS = new ConcurrentHashMap<>();

  /** Places that readers of this process hold now. */
  static final AtomicLong HELD = new AtomicLong();

  private final ByteBuffer memory;
  private final long address;

  private Ring(ByteBuffer memory) {
    this.memory = memory.order(ByteOrder.LITTLE_ENDIAN);
    this.address = MemoryUtil.getByteBufferAddress(memory);
  }

  /**
   * The ring that a worker announced as {@code token:path}, mapped and told so; or null when this
   * process may not map it, and then the worker goes on sending batches whole.
   */
  static Ring of(String announced) {
    WeakReference<Ring> known = RINGS.get(announced);
    Ring ring = known == null ? null : known.get();
    if (ring == null) {
      ring = mapped(announced);
      RINGS.values().removeIf(each -> each.get() == null);
      if (ring != null) { RINGS.put(announced, new WeakReference<>(ring)); }
    }
    return ring;
  }

  private static Ring mapped(String announced) {
    int colon = announced.indexOf(':');
    Path path = Path.of(announced.substring(colon + 1));
    try (FileChannel file =
        FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      Ring ring = new Ring(file.map(FileChannel.MapMode.READ_WRITE, 0, file.size()));
      // Numbers of processes are used again: the token is who was meant.
      long token = Long.parseUnsignedLong(announced.substring(0, colon), 16);
      if (ring.memory.getLong(8) != token) { return null; }
      MARK.setRelease(ring.memory, 0, 1L);
      return ring;
    } catch (IOException | SecurityException refused) {
      return null;
    }
  }

  /** The bytes of a batch that lies here. */
  ByteBuffer slice(long offset, int length) {
    return memory.slice(Math.toIntExact(offset), length).order(ByteOrder.LITTLE_ENDIAN);
  }

  long address(long offset) { return address + offset; }

  /** Gives a place back; what was read from it happened before. */
  void free(int place) { MARK.setRelease(memory, CELL * (1 + place), 0L); }
}
