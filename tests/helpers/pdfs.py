"""PDF files, written out plainly, so that what is in them can be repeated, changed and damaged."""

import zlib


def page_of(lines, size=8):
    """What a page shows: lines of text, from its top."""
    rows = [
        b"1 0 0 1 40 %d Tm (%s) Tj" % (800 - 9 * row, line.encode("latin-1", "replace"))
        for row, line in enumerate(lines)
    ]
    return b"BT /F1 %d Tf %s ET" % (size, b" ".join(rows))


def objects_of(contents, packed=False, times=1):
    """A document's objects: catalogue, pages, font, what pages show, and the pages.

    Args:
        contents: of the pages.
        packed: whether they are compressed.
        times: how many pages show each of them.
    """
    streams = [zlib.compress(content) if packed else content for content in contents]
    how = b"/Filter/FlateDecode" if packed else b""
    shown = [4 + n for n in range(len(streams)) for _ in range(times)]
    pages = range(4 + len(streams), 4 + len(streams) + len(shown))
    kids = b" ".join(b"%d 0 R" % page for page in pages)
    return [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(shown), kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        *(b"<</Length %d%s>>stream\n%s\nendstream" % (len(s), how, s) for s in streams),
        *(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>>>>>" % stream
            for stream in shown
        ),
    ]


def pdf_of(objects):
    """The file that holds objects, with a table of where each of them stands."""
    content = b"%PDF-1.4\n"
    places = []
    for number, part in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start, count = len(content), len(objects) + 1
    content += b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table)
    return content + b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (count, start)
