"""Short texts to make a corpus of."""

STORY = (
    "Mr. Brown met Dr. A. Lee at the gate. 'Are you well?' he asked. \"Very,\" said she! "
    "They walked on... The dog followed them (it always did). Nobody spoke."
)


def write_stories(folder):
    """Twelve text files of growing length."""
    folder.mkdir()
    for number in range(12):
        lines = [f"Story {number} begins here. {STORY}"] * (number + 1)
        (folder / f"story{number}.txt").write_bytes("\r\n\r\n".join(lines).encode("utf-8-sig"))
    return folder
