package loss

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/glob"
)

// remade lists names of directories and files that builds, package managers and tests make again. With a
// slash, it is the end of a path.
const remade = `
	*node_modules* bower_components .pnpm-store *.egg-info *.dist-info .eggs __pycache__ *venv venv[-_]* .venv* env .direnv Pods deps vendor .bundle wheelhouse elm-stuff
	*dist dist-* *build *build-* *target out *output .output obj bin _site site storybook-static public/assets static/assets public/packs *.dSYM *.xcarchive result buck-out bazel-* zig-*
	CMakeFiles CMakeCache.txt cdk.out *DerivedData* *generated __generated__ gen
	*cache .n[eu]xt* .nitro .svelte-kit .turbo .vite .angular .astro .expo .docusaurus .vercel .netlify .serverless .aws-sam .sst .terraform .gradle .kotlin .dart_tool .stack-work
	.parcel-* .webpack .hypothesis .ipynb_checkpoints .tox .nox .stryker-tmp .nyc_output lightning_logs
	*coverage* *htmlcov *test-results* *playwright-report reports/* *screenshots *videos *snapshots tmp* .tmp* temp temp[-_]* logs* log/*
	*.log *.tmp *.py[co] *.o *.tgz *.tar.[gxb]z* *.zip *.bak *.orig *.tsbuildinfo *.lock *-lock.json *-lock.yaml .DS_Store`

// variables lists names of variables, in lower case, that usually hold temporary or build directories.
const variables = "tmp temp tmpdir* tmp_dir* tempdir* temp_dir* runner_temp* *cache build* dist* out*"

// temporary are paths of temporary files and caches, caches are paths below a home directory.
var (
	temporary = []string{
		"/{tmp,private/tmp,var/tmp,var/folders,dev/shm,var/cache,var/lib/apt/lists,usr/share/doc,usr/share/man}/*/**", "/usr/local/go/**",
		"/**/{.cache,.npm}/**",
	}
	caches = []string{".cache/**", ".npm/**", "tmp/**", ".gradle/caches*/**", ".gradle/caches*", ".m2/repository/**", ".cargo/registry/**", "go/pkg/**", "Library/{Caches,Developer}/**"}
)

// containers are the usual places of a project in a container.
var containers = []string{"/{workspace*,app,code,repo}/**"}

// system are the directories at the top whose whole content is of the system.
const system = " tmp bin boot dev etc lib lib32 lib64 libx32 proc run sbin sys usr var private System Library Applications Windows "

// repositoryState are paths in a repository that hold no history.
var repositoryState = []string{"**/.git/{rebase-*,modules/*,*.lock,hooks/*.sample}", "**/*template*/.git"}

// marks are files that tools leave in the directories that they make.
var marks = []string{"pyvenv.cfg", ".package-lock.json", ".yarn-integrity", ".modules.yaml", ".rustc_info.json", "CMakeCache.txt", ".ninja_log"}

// names is the table of remade, by the number of pieces.
var names = sync.OnceValue(func() [2][]string {
	var table [2][]string
	for name := range strings.FieldsSeq(remade) {
		n := strings.Count(name, "/")
		table[n] = append(table[n], name)
	}
	return table
})

// Remade reports whether a word has the name of something that tools make again, or is in such a
// directory.
func Remade(text string) bool {
	text = strings.TrimRight(filepath.ToSlash(text), "/")
	if strings.ContainsAny(text, "$`") {
		return remadeComputed(text)
	}
	parts := strings.Split(path.Clean(text), "/")
	if slices.Contains(parts, "..") {
		return false
	}
	for i, part := range parts {
		if matchesAny(names()[0], part) || i > 0 && matchesAny(names()[1], parts[i-1]+"/"+part) {
			return true
		}
	}
	return false
}

// remadeComputed is Remade for a word with variables.
func remadeComputed(text string) bool {
	if strings.Contains(text, "..") {
		return false
	}
	name, ok := strings.CutPrefix(strings.TrimPrefix(strings.ToLower(text), "$"), "{")
	ok = ok || strings.HasPrefix(text, "$")
	end := strings.IndexFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	if end >= 0 {
		name = name[:end]
	}
	if ok && matchesAny(strings.Fields(variables), name) || strings.HasPrefix(text, "$(mktemp") || strings.HasPrefix(text, "/tmp/") || strings.Contains(text, ":-/tmp}/") {
		return true
	}
	last := text[strings.LastIndexByte(text, '/')+1:]
	return last != text && !strings.ContainsAny(last, "$`}") && Remade(last)
}

// cacheTag is the name of the file with which tools mark a cache, see bford.info/cachedir.
const cacheTag = "CACHEDIR.TAG"

// sources are the ends of names of files that a person writes, and that no build of the same project makes.
const sources = " go py ts tsx jsx java kt rb php rs c cc cpp cs swift scala sql vue svelte ex exs hs dart tf proto "

// allSources reports whether a pattern matches all source files of one language.
func allSources(pattern string) bool {
	ext, ok := strings.CutPrefix(pattern, "*.")
	return ok && ext != "" && strings.Contains(sources, " "+ext+" ")
}

// Decides reports whether the content or the presence of a file with this name decides about deletions.
func Decides(base string) bool {
	return base == ".gitignore" || base == cacheTag || slices.Contains(marks, base)
}

// Mentions reports whether a text has the name of such a file.
func Mentions(text string) bool {
	return strings.Contains(text, cacheTag) || slices.ContainsFunc(marks, func(base string) bool { return strings.Contains(text, base) })
}

// marked reports whether a tool left a mark in a directory. A mark of the session does not count.
func (p *Place) marked(dir string) bool {
	wrote := func(name string) bool { return p.Wrote != nil && p.Wrote(name) }
	for _, base := range marks {
		if name := filepath.Join(dir, base); files.Exists(name) && !wrote(name) {
			return true
		}
	}
	name := filepath.Join(dir, cacheTag)
	tag, err := files.Read(name, 4<<10)
	return err == nil && strings.HasPrefix(string(tag), "Signature: 8a477f597d28d172789f06886806bc55") && !wrote(name)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return glob.Match(pattern, name) })
}

// lastParts returns the last n pieces of a path.
func lastParts(name string, n int) string {
	parts := strings.Split(name, "/")
	return strings.Join(parts[max(0, len(parts)-n):], "/")
}

// isSystem reports whether a path with slashes is a directory of the system, also one of Windows.
func isSystem(name string) bool {
	rest, drive := strings.TrimPrefix(name, "/"), false
	if len(name) > 1 && name[1] == ':' {
		rest, drive = strings.Trim(name[2:], "/"), true
	}
	first, more, deep := strings.Cut(rest, "/")
	if first == "" {
		return true
	}
	if !deep {
		return drive || strings.Contains(system, " "+first+" ") || !Remade(first)
	}
	if drive {
		return first == "Windows" || strings.HasPrefix(first, "Program")
	}
	return strings.Contains(system, " "+first+" ") && !(first == "var" && strings.HasPrefix(more, "www/"))
}

// isHome reports whether a path with slashes is the home directory of a user, or directly in it.
func isHome(name string) bool {
	return matchesAny([]string{"/{home,Users}/*", "/{home,Users}/*/.*", "/{home,Users}/*/.*/**", "/root/.*", "?:/Users/*", "?:/Users/*/.*"}, name)
}

// everything reports whether a pattern has nothing but wildcards.
func everything(base string) bool {
	return base != "" && strings.ContainsAny(base, "*[") && strings.Trim(base, "*?.[]!") == ""
}

// escapeBraces returns a pattern of a shell as one of package glob.
func escapeBraces(pattern string) string {
	return strings.NewReplacer("{", `\{`, "}", `\}`).Replace(pattern)
}
