"""Words that matter, or do not, when a line is extracted: a few of each from the languages most often met in chats.

A language that is missing here loses nothing but preference: its clauses are still picked by names, numbers and rarity.
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATIONS = _words(
    "not no never none nothing nobody neither nor without cannot can't won't don't didn't doesn't isn't aren't wasn't "
    "weren't shouldn't wouldn't couldn't hasn't haven't hadn't nicht kein keine keinen nie niemals ohne pas jamais sans "
    "ne aucun nunca jamás sin ningún não sem non mai senza niet geen nooit не нет без никогда ikke inte aldrig bez "
    "değil yok لا لم لن ليس غير नहीं मत"
)
"""Words that turn a sentence round."""

NEGATIVE_PARTS = ("n't", "n’t", "不", "没", "沒", "無", "无", "未", "非", "ない", "ません", "않", "없", "아니", "ไม่")
"""The same, where they are part of a word or words are not spaced."""

DECISIONS = _words(
    "decide decided decision agree agreed approve approved reject rejected choose chose chosen instead switch switched "
    "cancel cancelled canceled postpone postponed deadline must should will plan planned promise promised prefer "
    "prefers preferred always fixed failed error bug broke broken because important remember correction actually wrong "
    "changed moved renamed deleted removed released deployed merged shipped entschieden beschlossen vereinbart "
    "décidé convenu decidido acordado решили договорились"
)
"""Words of decisions, corrections and failures."""

DATES = _words(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december today tomorrow yesterday tonight week month year"
)
"""Words that place something in time."""

COMMON = _words(
    "a an the and or but if then so as of to in on at by for with from into about over after before is are was were be "
    "been being am i you he she it we they me him her us them my your his its our their this that these those there "
    "here what which who whom when where why how do does did done have has had having can could would might just "
    "also very really much many more most some any all each than too only own same such up out off down again still "
    "well oh yes yeah ok okay hi hello hey thanks thank please sure great good nice got get let like know think see "
    "say said one it's i'm i'll i've you're we're that's let's der die das und ist ein eine zu mit auf für von im den "
    "le la les un une et est de des du en que qui dans pour el los las y es por con para il è di che"
)
"""Words that say nothing by themselves."""
