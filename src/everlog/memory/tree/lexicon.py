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
    "cancel cancelled canceled postpone postponed deadline plan planned promise promised prefer "
    "prefers preferred fixed failed error bug broke broken remember correction wrong "
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
    "a an the and or but if then so as of to in on at by for with from into about over after before is are was were "
    "be been being am i you he she it we they me him her us them my your his its our their this that these those "
    "there here what which who whom when where why how do does did done have has had having can could would might "
    "just also very really much many more most some any all each than too only own same such up out off down again "
    "still well oh yes yeah ok okay hi hello hey thanks thank please sure great good nice got get let like know think "
    "see say said one it's i'm i'll i've you're we're that's let's der die das und ist ein eine zu mit auf für von im "
    "den le la les un une et est de des du en que qui dans pour nous vous ils elle elles sont sommes être votre vos "
    "notre nos au aux ce cette ces par sur avec plus mais si ou ich er sie wir ihr sind hat haben wird werden bei "
    "nach aus aber auch wie noch nur wenn dass dem una como más pero se lo al su sus el los las y es por con para il "
    "è di che"
)
"""Words that say nothing by themselves."""

FREQUENT = _words(
    "able above absolutely across actual actually add added ago ahead ain't almost alone along already although "
    "always amazing among amount another answer anybody anymore anyone anything anyway apart apparently appreciate "
    "area args around ask asked asking async attention available avoid await away awesome aww back bad based basic "
    "basically beautiful became because become becomes becoming began begin beginning behind believe best better "
    "between beyond big bit body both bring bringing brings bro brought build building built busy buy bye call called "
    "calling came care careful case cause certain certainly chance change changes check cheers choice class clear "
    "clearly close com come comes coming common complete completely congrats congratulations consider consistent "
    "console const continue cool couple course create created creating current currently cut cute daily day days deal "
    "deep def definitely depending describe detail details difference different difficult div doing during early "
    "easier easily easy effect effective eight either elif else end enjoy enjoyed enjoying enough ensure ensuring "
    "entire especially essential etc even evening ever every everybody everyone everything everywhere exactly example "
    "except excited exciting experience experiences explain export extra extremely face fact fair false family "
    "fantastic far fast favorite feel feeling feelings feels felt few figure final finally find finding fine first "
    "fit five focus follow following four friend friends full fully fun function further future gave general "
    "generally gets getting girl give given gives giving glad go goal goals goes going gone gonna gosh gotta grateful "
    "group grow guess guy guys haha half hand handle happen happened happening happens happy hard he'd he'll he's "
    "head hear heard heart help helped helpful helping helps here's high hmm hold home hope hopefully hour hours "
    "house how's href html http https huge i'd id idea ideas imagine impact import important improve incredible "
    "indeed inside inspiring int interested interesting involved issue issues job join journey joy json keep keeping "
    "kept key kid kids kind kinda knew knowing known knows kwargs lambda large last late lately later latest learn "
    "learned learning least leave left less level life light line list listen little live lived lives living log lol "
    "long longer look looked looking looks lose lost lots love loved lovely loves loving low luck lucky main maintain "
    "major make makes making man manage matter matters maybe mean meaning means meant meet met middle mind minute "
    "minutes miss missed moment moments morning move moving must name natural near nearly necessary need needed needs "
    "new next night nine normal note null number often old older omg ones open opportunity option options order org "
    "others outside overall part particular passed past pay people perfect perhaps person personal pic piece place "
    "planning plans play playing point positive possible power pretty previous print private probably problem "
    "problems process project proud provide provides public pull put putting question questions quick quickly quite "
    "ran rather read ready real realize realized reason reasons recent recently regular related relax remind reminds "
    "require rest return right road room run running safe save saw saying says second seem seemed seems seen self "
    "sense set seven several share shared sharing she'd she'll she's short should show showed showing shows side "
    "similar simple simply since single sit situation six size small smile someone something sometimes soon sorry "
    "sort sound sounds special specific spend spent src stand start started starting state static stay step steps "
    "sticking stop story str strong stuff suggest super support supporting supportive suppose supposed sweet take "
    "taken takes taking talk talked talking tell telling ten tends terms test text there's therefore they'd they'll "
    "they're thing things thinking third thought thoughts three through time times together told took total totally "
    "touch tough toward towards tried true truly trust try trying turn turned turns two type understand unique unless "
    "until update use used useful user uses using usual usually value var various view void wait wanna want wanted "
    "wants watch watching way ways we'd we'll weird welcome went what's whatever whenever where's wherever whether "
    "while who's whoever whole will wish within woman women wonder wonderful word words work worked working works "
    "world worry worth wow write writing www ya yay years yep yet you'd you'll young yup"
)
"""Words that say little by themselves, in talk and in code: the first to go where room is short."""
