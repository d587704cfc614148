"""Protocol Buffers: reading .proto texts and descriptors, writing them, and which changes readers bear."""
