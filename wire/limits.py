"""Every limit of the wire, each with its reason. Limits of a single part stand in that part."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

HEADER_SIZE_MAX: Final = 65_535
"""Bytes of the header of a node message: its size travels in 16 bits."""

HEADERS_MAX: Final = 256
"""Headers of one frame: the number of a header is one byte, so that no loop over the messages of a
frame has to leave C."""

TOPIC_SIZE_MAX: Final = 65_496
"""Bytes of UTF-8 in a topic: with the id of a receiver it fits in the longest header."""

PAYLOAD_SIZE_MAX: Final = 16 * MIB
"""Bytes of one encoded payload. Larger things belong in a store or a file, in chunks."""

HANDSHAKE_FRAME_SIZE_MAX: Final = 4 * MIB
"""Bytes of one frame before the peer is known: a thousand announcements of 50 links fit twice."""

GROUP_SIZE: Final = 128 * KIB
"""Bytes after which a frame takes no more payloads: one write's worth, so that what a frame costs
is shared by a dozen large messages. Twice as much was slower: frames then span several reads."""

JOIN_SIZE: Final = 2 * KIB
"""Bytes of an average piece below which joining is cheaper than having the system gather them."""

GROUP_COUNT: Final = 1024
"""Payloads after which a frame takes no more: ten times a frame's own cost is shared already. As
many message numbers fit in the bitmap of a sparse frame."""

SEQUENCE_MAX: Final = 2**64 - 1
"""The largest number of a message: it travels in 64 bits."""

VALUE_DEPTH_MAX: Final = 32
"""Nesting of a value, far above any honest one and far below the decoder's stack."""

VALUE_ENTRIES_MAX: Final = 1_048_576
"""Values within one value, itself included: they take 200 MiB at worst, where the largest payload
could make two gigabytes of memory. What has more belongs into several messages, or into bytes."""

TTL_DEFAULT: Final = 16
"""Links that a message may cross: Broker's default, twice the diameter of any sane mesh."""

TTL_MAX: Final = 255
"""The time to live travels in one byte."""

LAMPORT_TIME_MAX: Final = 2**62
"""The latest time that a peer may announce: one that hears of it can still tell a later time."""

LINKS_MAX: Final = 4096
"""Links of one announcement: an endpoint with that many peers has run out of file descriptors."""

SUBSCRIPTIONS_MAX: Final = 16_384
"""Topic prefixes of one announcement. Everybody keeps them all, so they are counted per mesh."""

STORES_MAX: Final = 4096
"""Store topics of one announcement, for the same reason."""

KNOWLEDGE_MAX: Final = 65_536
"""Endpoints of a vector of times: six times what an endpoint remembers, in 2 MiB."""

NAME_SIZE_MAX: Final = 255
"""Bytes of the name in an announcement: the longest that a DNS name in a certificate may be."""

LABEL_SIZE_MAX: Final = 64
"""Bytes of the name that an endpoint gives itself: it stands in every log line and event."""

SIGNING_KEY_SIZE: Final = 32
"""Bytes of an Ed25519 public key (RFC 8032)."""

SIGNATURE_SIZE: Final = 64
"""Bytes of an Ed25519 signature."""

COLUMNS_SIZE_MAX: Final = 16 + 2 * HEADERS_MAX + (1 + 4) * GROUP_COUNT + 128 + SIGNATURE_SIZE
"""Bytes of a node frame beside headers and payloads: sender, lengths of the headers, number and
length of each payload, bitmap, signature."""

FRAME_SIZE_MAX: Final = PAYLOAD_SIZE_MAX + HEADER_SIZE_MAX + COLUMNS_SIZE_MAX
"""Bytes of one frame after its front: the largest payload with the largest header always fits. A
peer can make us buffer no more."""

FRAME_SIZE_MIN: Final = 128 * KIB
"""The least that an endpoint may set its limit of a frame to: the largest header with the columns
of a full frame fits, and as much again of payload."""

CERTIFICATES_MAX: Final = 4
"""Certificates of one seal: an endpoint's own, and three between it and the authority."""

CERTIFICATE_SIZE_MAX: Final = 8 * KIB
"""Bytes of a certificate in a seal, and of what its key has signed: RSA of 16,384 bits fits."""

HELD_HEADERS_SIZE_MAX: Final = 66 * KIB
"""Bytes of the headers in one hold: the longest fits, and a hundred of six hundred bytes."""

HOLD_LABEL_SIZE_MAX: Final = 256
"""Characters of the name of a subscription, as others see it."""

REASON_SIZE_MAX: Final = 1024
"""Characters of the reason in ``drop_conn``: some sentences for a status event, not a book."""
