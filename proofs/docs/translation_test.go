package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestPages does not run the console blocks of Chinese pages: TestTranslations requires that they
// are equal to the blocks of the English page, which TestPages runs.
const (
	chinese  = ".zh-CN.md" // a Chinese page is next to its English page
	glossary = "术语表"       // heading of a section that only Chinese pages have, at their end
)

func isTranslation(page string) bool { return strings.HasSuffix(page, chinese) }

// Every Chinese page has the headings, blocks and links of its English page. Generated parts
// may be translated: the tests that generate them write both pages.
func TestTranslations(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range pages(t) {
		if !isTranslation(page) {
			continue
		}
		found++
		original := strings.TrimSuffix(page, chinese) + ".md"
		if _, err := os.Stat(original); err != nil {
			t.Errorf("%s: its English page does not exist: %v; rename or remove the translation", page, err)
			continue
		}
		en := document{filepath.ToSlash(original), readPage(t, original)}
		zh := document{filepath.ToSlash(page), readPage(t, page)}
		for _, message := range drift(en, zh) {
			t.Error(message)
		}
	}
	if found < 2 {
		t.Errorf("only %d Chinese pages found", found)
	}
}

type document struct{ name, text string }

// A section begins with a heading. The first section of a page has no heading, and level 0.
type section struct {
	line, level int
	title       string
	blocks      []block
	links       []reference
}

// A reference is a link or an image.
type reference struct {
	line   int
	target string
	key    string // the target in a form that both languages have
}

var (
	heading = regexp.MustCompile(`^(#{1,6}) +(.*)$`)
	anyLink = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
)

// blockEnd returns the line that ends a block, if this line begins one: a fenced block, or a
// generated part. Otherwise it returns the empty string.
func blockEnd(line string) string {
	switch line = strings.TrimSpace(line); {
	case strings.HasPrefix(line, "```"):
		return "```"
	case strings.HasPrefix(line, "<!-- generated: "):
		return "<!-- end -->"
	default:
		return ""
	}
}

// sections splits a page. The lang of a block is the whole line that begins it. Headings and links
// in blocks are not listed.
func sections(page string) []section {
	list := []section{{line: 1}}
	var code *block // that has not ended yet
	end := ""       // line that ends it
	at := 0         // where the line begins
	for i, line := range strings.Split(page, "\n") {
		last := &list[len(list)-1]
		switch {
		case code != nil && strings.TrimSpace(line) == end:
			last.blocks = append(last.blocks, *code)
			code = nil
		case code != nil:
			code.text += line + "\n"
		case blockEnd(line) != "":
			end = blockEnd(line)
			code = &block{line: i + 2, lang: strings.TrimSpace(line)}
			if name := nameEnd.FindStringSubmatch(page[:at]); name != nil {
				code.file = name[1]
			}
		default:
			if found := heading.FindStringSubmatch(line); found != nil {
				list = append(list, section{line: i + 1, level: len(found[1]), title: found[2]})
				last = &list[len(list)-1]
			}
			for _, to := range anyLink.FindAllStringSubmatch(line, -1) {
				last.links = append(last.links, reference{line: i + 1, target: to[1]})
			}
		}
		at += len(line) + 1
	}
	for i := range list {
		for j := range list[i].links {
			list[i].links[j].key = neutral(list[i].links[j].target, list)
		}
	}
	return list
}

// neutral returns a target in a form that both languages have: the name of the English page, and
// the number of a heading of this page instead of its anchor. A wrong anchor stays as it is.
func neutral(target string, list []section) string {
	if anchor, ok := strings.CutPrefix(target, "#"); ok {
		for i, s := range list {
			if s.level > 0 && anchorOf(s.title) == anchor {
				return fmt.Sprintf("#%d", i)
			}
		}
		return target
	}
	if strings.Contains(target, "://") {
		return target
	}
	return strings.Replace(target, chinese, ".md", 1)
}

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, title)
}

// drift returns the differences between an English page and its Chinese page. If the headings
// differ, it reports the first difference and nothing else, because the sections do not correspond.
func drift(en, zh document) []string {
	text, _, _ := strings.Cut(zh.text, "\n## "+glossary+"\n")
	from, to := sections(en.text), sections(text)
	for i := range max(len(from), len(to)) {
		switch {
		case i >= len(to):
			return []string{fmt.Sprintf("%s:%d: the Chinese page has no section for %q of %s:%d; translate the section",
				zh.name, strings.Count(text, "\n"), from[i].title, en.name, from[i].line)}
		case i >= len(from):
			return []string{fmt.Sprintf("%s:%d: %s has no section for %q; remove the section, or add it to the English page",
				zh.name, to[i].line, en.name, to[i].title)}
		case from[i].level != to[i].level:
			return []string{fmt.Sprintf("%s:%d: heading %q has level %d, and heading %q of %s:%d has level %d; give the Chinese page the sections of the English page",
				zh.name, to[i].line, to[i].title, to[i].level, from[i].title, en.name, from[i].line, from[i].level)}
		}
	}
	var list []string
	for i := range from {
		list = append(list, blockDrift(en, zh, from[i], to[i])...)
		list = append(list, linkDrift(en, zh, from[i], to[i])...)
	}
	for _, one := range []struct{ page, other document }{{en, zh}, {zh, en}} {
		if base := path.Base(one.other.name); !strings.Contains(one.page.text, "("+base+")") {
			list = append(list, fmt.Sprintf("%s:3: the page does not link to %s; add the line with the two languages below the title", one.page.name, base))
		}
	}
	return list
}

func blockDrift(en, zh document, from, to section) []string {
	if len(from.blocks) != len(to.blocks) {
		return []string{fmt.Sprintf("%s:%d: %d blocks in the section, and %d in section %q of %s:%d; copy the blocks of the English page, in the same order",
			zh.name, to.line, len(to.blocks), len(from.blocks), from.title, en.name, from.line)}
	}
	var list []string
	for i := range from.blocks {
		want, got := from.blocks[i], to.blocks[i]
		if want.file != got.file {
			list = append(list, fmt.Sprintf("%s:%d: %s:%d names the file %q before this block, the Chinese page %q; end the sentence with the name in backquotes and a colon",
				zh.name, got.line, en.name, want.line, want.file, got.file))
		}
		if strings.HasPrefix(want.lang, "<!-- generated: ") && want.lang == got.lang {
			continue
		}
		wants, gots := strings.Split(want.lang+"\n"+want.text, "\n"), strings.Split(got.lang+"\n"+got.text, "\n")
		for j := range max(len(wants), len(gots)) {
			if j >= len(wants) || j >= len(gots) || wants[j] != gots[j] {
				list = append(list, fmt.Sprintf("%s:%d: the block differs from %s:%d; copy the whole block from the English page, without a translation",
					zh.name, got.line-1+min(j, len(gots)-1), en.name, want.line-1+min(j, len(wants)-1)))
				break
			}
		}
	}
	return list
}

// linkDrift ignores the order of links in a section, because the languages order words
// differently, and the links between the two pages.
func linkDrift(en, zh document, from, to section) []string {
	count := map[string]int{}
	for _, l := range to.links {
		count[l.key]++
	}
	var list []string
	self := path.Base(en.name)
	for _, l := range from.links {
		if count[l.key]--; count[l.key] < 0 && l.key != self {
			list = append(list, fmt.Sprintf("%s:%d: the section lacks the link of %s:%d to %s; add it (the anchor of a heading is the Chinese heading)",
				zh.name, to.line, en.name, l.line, l.target))
		}
	}
	for _, l := range to.links {
		if count[l.key] > 0 && l.key != self {
			count[l.key]--
			list = append(list, fmt.Sprintf("%s:%d: section %q of %s:%d has no link to %s; remove the link, or correct its target",
				zh.name, l.line, from.title, en.name, from.line, l.target))
		}
	}
	return list
}

func TestDrift(t *testing.T) {
	t.Parallel()
	const english = "# Title\n\nEnglish | [中文](page.zh-CN.md)\n\n[A](a.md), [b](b.md#x).\n\n## Two parts\n\nSave `x.yaml`:\n\n```yaml\na: 1 # one\n```\n\n[Above](#two-parts)\n\n<!-- generated: b; -update -->\n| b |\n<!-- end -->\n"
	const same = "# 标题\n\n[English](page.md) | 中文\n\n[乙](b.md#x)、[甲](a.zh-CN.md)。\n\n## 两个部分\n\n保存 `x.yaml`：\n\n```yaml\na: 1 # one\n```\n\n[上文](#两个部分)\n\n<!-- generated: b; -update -->\n| b |\n<!-- end -->\n"
	for name, test := range map[string]struct{ old, new, want string }{
		"same":              {"", "", ""},
		"glossary":          {"<!-- end -->\n", "<!-- end -->\n\n## 术语表\n\n[c](c.md)\n", ""},
		"level":             {"## 两", "### 两", "page.zh-CN.md:7: heading"},
		"heading missing":   {"## 两个部分\n", "", "page.zh-CN.md:18: the Chinese page has no section"},
		"heading too many":  {"<!-- end -->\n", "<!-- end -->\n\n## 更多\n", "page.zh-CN.md:21: page.md has no section"},
		"block":             {"# one", "# 一", "page.zh-CN.md:12: the block differs from page.md:12"},
		"language of block": {"```yaml", "```yml", "page.zh-CN.md:11: the block differs"},
		"block is longer":   {"# one\n", "# one\nb: 2\n", "page.zh-CN.md:13: the block differs"},
		"block missing":     {"```yaml\na: 1 # one\n```\n", "", "page.zh-CN.md:7: 1 blocks in the section, and 2 in section \"Two parts\" of page.md:7"},
		"block too many":    {"[上文]", "```sh\nls\n```\n\n[上文]", "page.zh-CN.md:7: 3 blocks in the section"},
		"generated part":    {"| b |", "| 乙 |", ""},
		"file":              {"保存 `x.yaml`：", "保存：", "page.zh-CN.md:12: page.md:12 names the file"},
		"link missing":      {"[乙](b.md#x)", "乙", "page.zh-CN.md:1: the section lacks the link of page.md:5 to b.md#x"},
		"link elsewhere":    {"、[甲](a.zh-CN.md)", "、[甲](a.zh-CN.md)、[丙](c.md)", "page.zh-CN.md:5: section"},
		"anchor":            {"(#两个部分)", "(#two-parts)", "page.zh-CN.md:7: the section lacks the link of page.md:15 to #two-parts"},
		"other language":    {"[English](page.md) | ", "", "page.zh-CN.md:3: the page does not link to page.md"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := drift(document{"page.md", english}, document{"page.zh-CN.md", strings.Replace(same, test.old, test.new, 1)})
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], test.want)) {
				t.Errorf("drift after replacing %q by %q = %q, want %q first", test.old, test.new, got, test.want)
			}
		})
	}
}
