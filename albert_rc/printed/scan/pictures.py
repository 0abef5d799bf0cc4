"""Pages of picture and PDF files as arrays of pixels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albert_rc.errors import DataError, UsageError
from albert_rc.printed.lines import shortened

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")
"""What is opened, whatever a file's name: Pillow gives other formats to programs (EPS to `gs`)."""
LARGEST = 120_000_000
"""Maximum number of pixels of a picture; phones take 12 to 50 million."""
LONGEST_SIDE = 5000
"""Maximum side in pixels; larger pictures are scaled down, which does not hurt recognition."""
DOTS = 250
"""Dots per inch at which the pages of a PDF file are drawn."""
MOST_PAGES = 40


def read_pictures(path: Path) -> Iterator[np.ndarray[Any, Any]]:
    """The pages of a picture file, RGB, in the orientation that the file specifies.

    Raises:
        UsageError: Pillow is not installed.
        DataError: the file cannot be read, is too large, or has too many pages.
    """
    import numpy as np

    try:
        from PIL import Image, ImageOps, ImageSequence
    except ImportError:
        raise UsageError(needs(path)) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(path, formats=FORMATS) as opened:
                if opened.width * opened.height > LARGEST:
                    raise DataError(
                        f"{path}: {opened.width} x {opened.height} pixels are too many; reduce it"
                    )
                for number, frame in enumerate(ImageSequence.Iterator(opened)):
                    if number >= MOST_PAGES:
                        raise DataError(f"{path}: more than {MOST_PAGES} pages; give them in parts")
                    page = ImageOps.exif_transpose(frame).convert("RGBA")
                    # Transparent pixels count as paper.
                    page = Image.alpha_composite(Image.new("RGBA", page.size, "white"), page)
                    page.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
                    yield np.asarray(page.convert("RGB"))
        except DataError:
            raise
        except MemoryError:
            raise
        except OSError as error:
            said = error.strerror or "not a readable picture"
            raise DataError(f"{path}: {said}; save it as PNG or JPEG") from None
        except Exception as error:  # a damaged file can raise anything
            said = shortened(str(error) or type(error).__name__, 80)
            raise DataError(
                f"{path}: not a readable picture ({said}); save it as PNG or JPEG"
            ) from None


def draw_pages(path: Path) -> Iterator[np.ndarray[Any, Any]]:
    """The pages of a PDF file without text, rendered as pictures, RGB.

    Raises:
        UsageError: pypdfium2 is not installed.
        DataError: the file has too many pages, or they cannot be rendered.
    """
    import numpy as np

    try:
        import pypdfium2
    except ImportError:
        raise UsageError(needs(path)) from None
    try:
        document = pypdfium2.PdfDocument(path)
        if len(document) > MOST_PAGES:
            raise DataError(
                f"{path}: {len(document)} pages without text; up to {MOST_PAGES} are read, so "
                "give it in parts"
            )
        for page in document:
            scale = min(DOTS / 72, LONGEST_SIDE / max(1, *page.get_size()))
            yield np.asarray(page.render(scale=scale).to_pil().convert("RGB"))
            page.close()
        document.close()
    except (DataError, MemoryError, GeneratorExit):
        raise
    except Exception as error:  # a damaged file can raise anything
        said = shortened(str(error) or type(error).__name__, 80)
        raise DataError(
            f"{path}: no text in it, and its pages cannot be drawn ({said}); print it to PDF again"
        ) from None


def needs(path: Path) -> str:
    """The message that says what to install for reading pictures."""
    why = "no text in it; if it is a scan, that" if path.suffix.lower() == ".pdf" else "a picture"
    return f'{path}: {why} needs text recognition; pip install "albert-rc[ocr]"'
