"""The safeguards of node frames, and of the numbers of messages."""

from tests.safeguards.safeguard import Safeguard

_FRAMING = ("tests/wire/test_framing.py",)
_CODEC = ("tests/wire/test_codec.py",)
_WINDOWS = ("tests/endpoint/mesh/test_duplicates.py",)
_EDGE = ("tests/peermesh/brokers/edge/test_hostile.py",)

FRAMES = [
    Safeguard(
        "each message has a header that is there",
        "a peer ends a reader by the number of a header that is not there",
        "wire/framing.py",
        "        if self.numbers.translate(None, _NUMBERS[number]):\n",
        "        if False:\n",
        _FRAMING,
    ),
    Safeguard(
        "the bitmap fits the messages",
        "messages count as others than they are, and later ones as duplicates",
        "wire/framing.py",
        "        if not mask & 1 or mask.bit_count() != self.count:\n",
        "        if False:\n",
        _FRAMING,
    ),
    Safeguard(
        "message numbers end",
        "one frame makes all later messages of a sender duplicates",
        "wire/framing.py",
        "        if self.first > _FIRST_SAFE:\n",
        "        if False:\n",
        _FRAMING,
    ),
    Safeguard(
        "flags that are not known are refused",
        "a frame of a later version is read as if it were of this one",
        "wire/framing.py",
        " or flags & _UNUSED:\n",
        ":\n",
        _FRAMING,
    ),
    Safeguard(
        "columns lie within their frame",
        "a frame is judged by the bytes that come after it",
        "wire/framing.py",
        "        if after > end or 0 in lengths:\n",
        "        if 0 in lengths:\n",
        _FRAMING,
    ),
    Safeguard(
        "a divided frame keeps its numbers",
        "a part of a frame is taken for other messages, or for seen ones",
        "wire/framing.py",
        "    return first + shift, mask if mask & (mask + 1) else None\n",
        "    return first, mask if mask & (mask + 1) else None\n",
        _FRAMING,
    ),
    Safeguard(
        "control frames have room where node frames are small",
        "news of a large mesh end the peering with an endpoint that takes small frames",
        "wire/framing.py",
        "        if size > self.size_max and (front[1] == NODE_KIND or size > self.control_size_max):\n",
        "        if size > self.size_max:\n",
        _FRAMING,
    ),
    Safeguard(
        "the least limit of a frame",
        "a peer has every message for it dropped, by a limit that nothing fits in",
        "wire/codec.py",
        "    if size < limits.FRAME_SIZE_MIN:\n",
        "    if False:\n",
        _CODEC,
    ),
    Safeguard(
        "a header has one encoding",
        "one topic takes many places in the caches of routes",
        "wire/codec.py",
        "    if flag not in _RECEIVER_SIZES:\n",
        '    flag = b"\\1" if flag > b"\\0" else b"\\0"\n    if flag not in _RECEIVER_SIZES:\n',
        _CODEC,
    ),
    Safeguard(
        "names that endpoints give themselves are checked",
        "a name breaks the lines of other endpoints' logs",
        "wire/codec.py",
        "    if item is not None and (type(item) is not str or not is_label(item)):\n",
        "    if item is not None and type(item) is not str:\n",
        _CODEC,
    ),
    Safeguard(
        "no endpoint gives itself the marks of proven names",
        "a stranger is shown as if a certificate had its name",
        "wire/identifiers.py",
        " or not _NO_NAME.isdisjoint(text):\n",
        ' or " " in text:\n',
        _CODEC,
    ),
    Safeguard(
        "no endpoint calls itself by an id",
        "a stranger is shown by the id of another endpoint",
        "wire/identifiers.py",
        "    return not is_id(text)\n",
        "    return True\n",
        _CODEC,
    ),
    Safeguard(
        "pages of numbers begin empty",
        "messages count as seen because of those 65,536 numbers before",
        "endpoint/mesh/duplicates.py",
        "                    pages[fresh & _PLACE] = 0\n",
        "                    pass\n",
        _WINDOWS,
    ),
    Safeguard(
        "the second half of a frame that lies in two pages",
        "a message at the end of a frame is delivered twice",
        "endpoint/mesh/duplicates.py",
        "            upper = (bits >> PAGE_SIZE) & ~seen\n",
        "            upper = bits >> PAGE_SIZE\n",
        _WINDOWS,
    ),
    Safeguard(
        "an edge broker takes frames of one topic",
        "messages of other topics go where the first one of the frame goes",
        "peermesh/brokers/edge/messages.py",
        "    if len(frame.headers) > 1 or frame.mask is not None or frame.is_signed or frame.is_forced:\n",
        "    if False:\n",
        _EDGE,
    ),
    Safeguard(
        "an edge broker speaks one version",
        "frames of another version are read as if they were of this one",
        "peermesh/brokers/edge/line.py",
        "                        check_versions(frame)\n",
        "                        pass\n",
        _EDGE,
    ),
]
