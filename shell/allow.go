package shell

import (
	"slices"
	"sort"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file matches patterns for rules that suppress the agent's own prompt. A pattern that blocks
// should match too many commands rather than too few. A pattern that allows must not: it names the
// program exactly, and every option must be in the pattern or known to be harmless.

// Allows reports whether one of the patterns allows s.Commands[i]. It requires MatchWhole, and:
//
//   - The program is written as in the pattern: "git status" does not allow ./git status.
//   - Each option is in the pattern or in the list of harmless options of the program: "git diff"
//     allows git diff --stat, but not git diff --output=.bashrc. Options of other programs must be
//     in the pattern.
//   - No computed word and no glob can become an option.
//
// The caller must also check s.Unknown, s.Writes and s.SetsVariables.
func Allows(patterns []*Pattern, s *Script, i int) bool {
	c := &s.Commands[i]
	return slices.ContainsFunc(patterns, func(p *Pattern) bool {
		return p.MatchCommand(s, i) == Yes && p.only(patterns, s, i) && p.last().allows(c)
	})
}

// KnowsOptions reports whether the package has a list of harmless options for the program of the
// pattern. If not, Allows accepts only the options in the pattern.
func (p *Pattern) KnowsOptions() bool {
	p = p.last()
	if p.program.glob {
		return true // the program is not known yet
	}
	row, name := rowOf(p.key), p.key
	options, known := harmlessOptions(name)
	if !known || len(p.lead) == 0 || options != "" && (row == nil || row.style&global != 0) {
		return known
	}
	known = false
	for i := range p.lead {
		name += " " + p.lead[i].text
		_, more := harmlessOptions(name)
		known = known || more
	}
	return known
}

// allows checks the spelling of the program and the words of a command that matches the pattern.
func (p *Pattern) allows(c *Command) bool {
	row := rowOf(c.key)
	if row == nil {
		row = anyProgram
	}
	if !p.spells(c) || row.style&plus != 0 && len(c.Args) > 0 && strings.HasPrefix(c.Args[0].Text, "+") { // +: another toolchain
		return false
	}
	list, listed := harmlessOptions(c.key)
	a := allowed{pattern: p, scanner: scanner{rows: row.path(c.Args), args: c.Args}, name: c.key, list: list}
	if row.style&global != 0 {
		a.everywhere = list
	}
	for a.scan() {
		if a.kind == operand && a.done && row.wraps() && (row.style&assigns == 0 || !strings.Contains(a.certain(), "=")) {
			break // the command of the wrapper is judged by itself
		}
		if a.kind == operand && !a.operand() || a.kind != operand && !a.option() {
			return false
		}
	}
	// If the pattern names an option such as sed -i, the command may write.
	return a.dangerous || !listed || !slices.ContainsFunc(a.scripts, mayWrite) &&
		!slices.ContainsFunc(c.Files(), func(f File) bool { return f.Use != UseRead && f.Use != UseAny })
}

// allowed is the state of checking the words of a command.
type allowed struct {
	scanner

	pattern    *Pattern
	name       string // of the program and the subcommand, as in harmless
	list       string // options that are harmless here
	everywhere string // options that are harmless before and after the subcommand
	dangerous  bool   // the pattern names an option that is not harmless
	scripts    []Word // scripts of sed
}

// mayWrite reports whether a script of sed may have one of the commands e, w and W.
func mayWrite(script Word) bool { return !script.Literal || strings.ContainsAny(script.Text, "ewW") }

// script records a word as a script of sed, if the table names it.
func (a *allowed) script(key string, w Word) {
	if get(a.rows[0].does, key) == "sed" {
		a.scripts = append(a.scripts, w)
	}
}

// option reports whether the current option is named by the pattern or harmless.
func (a *allowed) option() bool {
	harmless := a.kind == option && (a.harmless(a.list) || a.harmless(a.everywhere))
	if !harmless {
		named := a.kind == option && slices.ContainsFunc(a.pattern.needs, func(n need) bool { return a.answer(&n) == Yes })
		if !named {
			return false
		}
		a.dangerous = true
	}
	a.script(a.scanner.name, a.value)
	return a.plainValue()
}

// operand reports whether the current operand is allowed, and advances to its subcommand.
func (a *allowed) operand() bool {
	if !a.pattern.allowsOperand(&a.scanner) {
		return false
	}
	if a.operands == 1 {
		a.script("1", a.word)
	}
	name := a.name + " " + a.rows[0].canonical(a.word.Text)
	if list, ok := harmlessOptions(name); ok {
		a.name, a.list = name, list
	}
	return true
}

// spells reports whether a command names its program exactly as the pattern does.
func (p *Pattern) spells(c *Command) bool {
	switch {
	case !c.program.Literal || c.program.glob || c.program.Text != c.Path:
		return false
	case p.spelling.glob:
		return glob(p.spelling.text, c.Path) && !strings.Contains(c.Path, "..") && (strings.Contains(p.spelling.text, "/") || !strings.ContainsAny(c.Path, `/\`))
	}
	return c.Path == p.spelling.text
}

// allowsOperand reports whether the current operand is certainly not an option, a setting or a
// shorthand for an option, or is named by the pattern.
func (p *Pattern) allowsOperand(s *scanner) bool {
	text, row := s.certain(), s.rows[0]
	if slices.ContainsFunc(p.free, func(t term) bool { return t.answer(s.word) == Yes }) {
		return true
	}
	if implied := s.implied(); implied != "" && !slices.ContainsFunc(p.needs, func(n need) bool { return n.name == implied }) {
		return false
	}
	if name, value, ok := strings.Cut(text, "="); ok && (row.runs == runsMake || row.style&assigns != 0) {
		return row.runs != runsMake && harmlessVariable(name, value, s.word.Literal)
	}
	switch {
	case len(text) > 1 && text[0] == '-', !s.word.single(), !s.word.Literal && text == "":
		return false
	case s.word.glob && strings.IndexByte("*?[+@!", text[0]) >= 0:
		return false // a file may be named --output=x
	}
	return true
}

// plainValue reports whether the value of the current option is certainly one word and no option.
// The table may be wrong about which options take an argument.
func (s *scanner) plainValue() bool {
	if !s.valued || s.next-1 == s.at || !s.value.single() {
		return s.value.single()
	}
	text := s.value.Text
	return !s.value.glob && (len(text) < 2 || text[0] != '-' || strings.Trim(text[1:], "0123456789") == "")
}

// single reports whether a word is certainly one word. Elsewhere the output of tools such as git log
// is treated as one, but it may hold any text.
func (w Word) single() bool { return !w.many() && (w.Literal || !strings.ContainsAny(w.Text, "`(")) }

// harmless reports whether a list of harmless options contains the current option, or the option
// that it negates.
func (s *scanner) harmless(list string) bool {
	name := s.name
	if name != "" && strings.Trim(name, "0123456789") == "" {
		name = "9"
	} else if len(name) == 1 && !s.short && s.row().style&dashed == 0 {
		return false // --o may be short for --output
	}
	positive, negated := strings.CutPrefix(name, "no-")
	return has(list, name) || negated && !strings.HasPrefix(positive, "no-") && has(list, positive) || name != "9" && s.names() != "" && has(list, s.names())
}

// SetsVariables reports whether the line sets variables that its commands may inherit, other than
// ones that are known to be harmless: PATH=.:$PATH git status.
func (s *Script) SetsVariables() bool { return s.sets }

// sets records that the line gives a variable a value.
func (w *walker) sets(name string, value *syntax.Word) {
	word, literal := Word{}, value == nil
	if value != nil {
		word, literal = plain(value)
	}
	w.s.sets = w.s.sets || !harmlessVariable(name, word.Text, literal && value != nil)
}

// harmlessVariables lists variables that change no more than the language and form of output, or
// the target of a build.
const harmlessVariables = "CI CLICOLOR CLICOLOR_FORCE COLUMNS FORCE_COLOR GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT GOARCH GOOS LANG LANGUAGE LINES NODE_ENV NO_COLOR " +
	"PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED RUST_BACKTRACE TERM TZ"

// harmlessVariable reports whether a program that inherits the variable does nothing else. Programs
// use no variables of one letter. A value that is a path could name a file: LC_ALL=/tmp/x, TZ=:/x.
func harmlessVariable(name, value string, literal bool) bool {
	if len(name) == 1 && name[0] >= 'a' && name[0] <= 'z' {
		return true
	}
	return literal && (has(harmlessVariables, name) || strings.HasPrefix(name, "LC_")) &&
		(value == "" || strings.IndexByte("/:~.-", value[0]) < 0) && !strings.Contains(value, "..") && !strings.Contains(value, "=")
}

// harmlessOptions returns the options of a program or subcommand that run no program, write no file
// and name no configuration or other directory, as in the columns of the table; "9" is any number.
func harmlessOptions(name string) (options string, known bool) {
	i, ok := sort.Find(len(harmless), func(i int) int { return strings.Compare(name, harmless[i].name) })
	if !ok {
		return "", false
	}
	return harmless[i].options, true
}

const (
	gitDiffs = "p patch u s no-patch U unified stat numstat shortstat dirstat summary name-only name-status cached staged color word-diff word-diff-regex color-words " +
		"color-moved diff-filter S G pickaxe-regex pickaxe-all M find-renames renames C find-copies B D R ignore-all-space w b ignore-space-change ignore-space-at-eol " +
		"ignore-blank-lines W function-context raw z minimal patience histogram diff-algorithm abbrev full-index binary text a check exit-code quiet q compact-summary " +
		"relative merge-base src-prefix dst-prefix no-prefix no-ext-diff no-textconv ignore-submodules inter-hunk-context indent-heuristic r t"
	gitLogs = gitDiffs + " oneline n 9 max-count author committer grep i regexp-ignore-case E extended-regexp F fixed-strings P perl-regexp all branches tags remotes graph " +
		"decorate since until after before skip merges first-parent reverse follow format pretty date abbrev-commit topo-order date-order L all-match invert-grep " +
		"cherry cherry-pick left-right boundary simplify-by-decoration relative-date parents children full-history ancestry-path no-walk left-only right-only m c cc source " +
		"mailmap notes walk-reflogs g"
	gitRefs    = "a all l list contains no-contains merged no-merged points-at sort format color column i ignore-case q"
	greps      = "r R i v n l L c o q w x E F P e h H s a A B C m I b z Z T U 9 recursive ignore-case invert-match line-number files-with-matches files-without-match count only-matching quiet silent word-regexp line-regexp extended-regexp fixed-strings perl-regexp regexp no-filename with-filename no-messages text after-context before-context context max-count include exclude exclude-dir color colour null"
	goBuilds   = "v x n a race msan asan p tags trimpath buildvcs json"
	cargos     = "q quiet v verbose r release p package j jobs F features all-features no-default-features workspace all lib bins bin tests test examples example benches bench all-targets locked offline frozen no-run no-fail-fast message-format color doc keep-going profile"
	kubeGets   = "o output n namespace A all-namespaces l selector w watch show-labels L label-columns sort-by field-selector no-headers"
	dockerLogs = "f follow n tail t timestamps since until details no-color no-log-prefix"
	tests      = "watch silent"
)

// harmless has the options that an `allow` accepts without naming them, sorted by program. An option
// that is missing makes the agent ask; an option that is here by mistake runs a program unseen.
var harmless = []struct{ name, options string }{
	{"[", "a b c d e f g h k L n o p r s t u w x z S"},
	{"basename", "a s z"},
	{"cargo", ""},
	{"cargo bench", cargos},
	{"cargo build", cargos},
	{"cargo check", cargos},
	{"cargo clippy", cargos},
	{"cargo fmt", "q quiet v verbose p package all check"},
	{"cargo test", cargos},
	{"cargo tree", cargos + " e edges i invert d duplicates depth prefix"},
	{"cat", "A b e E n s t T u v number number-nonblank show-all show-ends show-tabs show-nonprinting squeeze-blank"},
	{"cd", "L P"},
	{"cut", "f d b c s fields delimiter bytes characters only-delimited output-delimiter complement"},
	{"date", "u I R d utc iso-8601 rfc-3339 rfc-email date"},
	{"df", "a h H i k l m P T human-readable total"},
	{"diff", "u U r q y w b B i N c C s a 9 unified recursive brief side-by-side ignore-all-space ignore-space-change ignore-blank-lines ignore-case new-file text color"},
	{"dirname", "z"},
	{"docker", ""},
	{"docker compose", ""},
	{"docker compose logs", dockerLogs},
	{"docker compose ps", "a all q quiet format filter services status"},
	{"docker images", "a all q quiet f filter format no-trunc digests"},
	{"docker inspect", "f format s size type"},
	{"docker logs", dockerLogs},
	{"docker ps", "a all q quiet f filter n last l latest no-trunc s size format"},
	{"du", "a c d h H k m s S x max-depth human-readable summarize total"},
	{"echo", "n e E"},
	{"egrep", greps},
	{"fd", "H I u s i g F a p t e E d L 0 1 hidden no-ignore unrestricted case-sensitive ignore-case glob fixed-strings absolute-path full-path type extension exclude max-depth min-depth size changed-within changed-before color"},
	{"fgrep", greps},
	{"file", "b i L mime mime-type brief"},
	{"find", "H L P name iname path ipath wholename regex iregex regextype type maxdepth mindepth size mtime mmin atime ctime newer perm user group print print0 ls empty not a and o or prune depth xdev follow"},
	{"gh", ""},
	{"gh issue", ""},
	{"gh issue list", "R repo L limit s state json q jq t template a assignee A author l label S search"},
	{"gh issue view", "R repo json q jq t template c comments"},
	{"gh pr", ""},
	{"gh pr checks", "R repo json q jq t template required"},
	{"gh pr diff", "R repo color name-only patch"},
	{"gh pr list", "R repo L limit s state json q jq t template a assignee A author l label S search B base H head d draft"},
	{"gh pr view", "R repo json q jq t template c comments"},
	{"gh run", ""},
	{"gh run list", "R repo L limit json q jq t template b branch s status w workflow e event u user c commit"},
	{"gh run view", "R repo json q jq t template j job log log-failed v verbose exit-status"},
	{"git", "P no-pager no-optional-locks literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs"},
	{"git add", "A all u update n dry-run v verbose N intent-to-add"},
	{"git blame", "L w M C s e f n p l t porcelain line-porcelain since date abbrev show-email show-name show-number color-lines"},
	{"git branch", gitRefs + " r remotes v verbose show-current"},
	{"git cat-file", "p t s e"},
	{"git checkout", "b q quiet t track"},
	{"git commit", "m message a all q quiet v verbose s signoff no-edit dry-run"},
	{"git describe", "all tags long always abbrev match exclude contains dirty exact-match first-parent"},
	{"git diff", gitDiffs},
	{"git fetch", "a all p prune t tags q quiet v verbose depth dry-run n j jobs"},
	{"git grep", "e f A B C m n i v w l L c h H E F P G o p W q a I z 9 cached untracked and or not max-count max-depth line-number column ignore-case invert-match word-regexp files-with-matches name-only count show-function extended-regexp fixed-strings perl-regexp basic-regexp only-matching break heading color"},
	{"git log", gitLogs},
	{"git ls-files", "c d m o i s k t v z cached deleted modified others ignored stage killed exclude-standard full-name error-unmatch eol directory abbrev"},
	{"git ls-tree", "r t d l z long name-only name-status full-name full-tree abbrev"},
	{"git merge-base", "a all is-ancestor fork-point octopus"},
	{"git pull", "r rebase ff-only q quiet v verbose"},
	{"git push", "u set-upstream q quiet v verbose n dry-run porcelain progress follow-tags"},
	{"git reflog", gitLogs},
	{"git remote", "v verbose"},
	{"git rev-list", gitLogs + " count"},
	{"git rev-parse", "abbrev-ref short verify q quiet show-toplevel show-prefix show-cdup is-inside-work-tree is-bare-repository symbolic symbolic-full-name all branches tags remotes absolute-git-dir git-common-dir git-dir"},
	{"git shortlog", gitLogs + " s n e summary numbered email"},
	{"git show", gitLogs},
	{"git status", "s short b branch porcelain long v verbose u untracked-files ignored z column ahead-behind renames find-renames show-stash ignore-submodules"},
	{"git switch", "c create q quiet t track"},
	{"git tag", gitRefs + " n"},
	{"go", ""},
	{"go build", goBuilds},
	{"go doc", "all c cmd short src u"},
	{"go fmt", "n x"},
	{"go list", goBuilds + " m f deps e u versions find test"},
	{"go run", goBuilds},
	{"go test", goBuilds + " bench benchmem benchtime count cover covermode coverpkg cpu failfast fullpath list parallel run short shuffle skip timeout"},
	{"go vet", goBuilds + " c"},
	{"grep", greps},
	{"head", "n c q v z 9 lines bytes quiet silent verbose zero-terminated"},
	{"jq", "r c e s n S M C a j raw-output compact-output exit-status slurp null-input sort-keys monochrome-output color-output ascii-output join-output raw-input R arg argjson args jsonargs tab indent"},
	{"kubectl", ""},
	{"kubectl describe", "n namespace A all-namespaces l selector show-events"},
	{"kubectl get", kubeGets},
	{"kubectl logs", "f follow tail since since-time c container p previous timestamps n namespace all-containers l selector prefix"},
	{"kubectl top", kubeGets + " containers"},
	{"ls", "a A l h R t r S 1 d F i s n g o G p q B C U c u L H k x m T I color all almost-all human-readable recursive reverse sort time time-style classify directory inode size full-time group-directories-first si ignore hide"},
	{"make", "B j k n s w always-make jobs keep-going dry-run just-print recon silent quiet no-print-directory print-directory"},
	{"mypy", "strict pretty v verbose show-error-codes ignore-missing-imports no-incremental"},
	{"npm", "s silent w workspace workspaces if-present json long depth loglevel D save-dev S save E save-exact dry-run no-audit no-fund " + tests},
	{"pnpm", "s silent r recursive json long depth D save-dev E save-exact frozen-lockfile filter F " + tests},
	{"prettier", "c check l list-different no-color"},
	{"pwd", "L P"},
	{"pytest", "q v x s k m l lf ff sw last-failed failed-first exitfirst maxfail tb durations no-header no-summary collect-only co n quiet verbose stepwise showlocals color"},
	{"readlink", "f e m n q s v z canonicalize canonicalize-existing canonicalize-missing no-newline"},
	{"realpath", "e m s q z relative-to relative-base"},
	{"rg", "i I S s v w x F n N l c o e g t T A B C m M u U P L j d 0 9 regexp glob iglob type type-not after-context before-context context max-count max-columns hidden no-ignore files files-with-matches files-without-match count count-matches only-matching ignore-case smart-case case-sensitive invert-match word-regexp line-regexp fixed-strings line-number no-filename with-filename heading color json max-depth sort stats multiline pcre2 follow threads type-list trim vimgrep"},
	{"ruff", ""},
	{"ruff check", "q quiet v verbose statistics select ignore show-settings no-cache output-format"},
	{"ruff format", "q quiet v verbose check diff no-cache"},
	{"sed", "n E r s u z e expression quiet silent regexp-extended separate null-data unbuffered"},
	{"sort", "n r u k t f b d g h M R V s c C z m i key field-separator numeric-sort reverse unique ignore-case human-numeric-sort version-sort stable check zero-terminated"},
	{"stat", "c f L t format printf terse dereference"},
	{"tail", "n c q v f F s z 9 lines bytes quiet silent verbose follow retry pid"},
	{"terraform", ""},
	{"terraform fmt", "check diff recursive no-color list write"},
	{"terraform plan", "no-color compact-warnings detailed-exitcode input lock refresh"},
	{"terraform show", "no-color json"},
	{"terraform validate", "no-color json"},
	{"test", "a b c d e f g h k L n o p r s t u w x z S"},
	{"tr", "c C d s t complement delete squeeze-repeats truncate-set1"},
	{"tree", "a d L I P f i s h p C n J X"},
	{"tsc", "noEmit pretty strict skipLibCheck w watch v version"},
	{"uniq", "c d u i f s w z count repeated unique ignore-case skip-fields skip-chars check-chars"},
	{"wc", "l w c m L lines words bytes chars max-line-length"},
	{"which", "a all"},
	{"yarn", "s silent json D dev E exact frozen-lockfile immutable " + tests},
}
