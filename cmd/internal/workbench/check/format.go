package check

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

// Findings returns all findings as one list, which is never nil, so that JSON has no null.
func Findings(all []Result) []Finding {
	list := []Finding{}
	for _, f := range all {
		list = append(list, f.Findings...)
	}
	return list
}

// message returns the message of a finding with its hint.
func (f Finding) message() string {
	if f.Hint == "" {
		return f.Msg
	}
	return f.Msg + " (" + f.Hint + ")"
}

// The GitHub runner reads commands line by line. Characters that would end a command or a
// property are written as %XX.
var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// WriteGitHub writes a workflow command for each finding. GitHub shows it at the line of the
// finding.
func WriteGitHub(out io.Writer, all []Result) error {
	for _, f := range Findings(all) {
		at := "file=" + commandProperty.Replace(filepath.ToSlash(underHere(f.File)))
		if f.Line > 0 {
			at += fmt.Sprintf(",line=%d,col=%d", f.Line, max(1, f.Col))
		}
		if _, err := fmt.Fprintf(out, "::%s %s,title=%s::%s\n", f.Severity, at, commandProperty.Replace("grapnel "+f.Rule), commandData.Replace(printable.Text(f.message()))); err != nil {
			return err
		}
	}
	return nil
}

// underHere returns the path of a file relative to the working directory, if the file is below
// it.
func underHere(file string) string {
	dir, err := cli.WorkDir()
	if err != nil {
		return file
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	if rel, err := filepath.Rel(dir, abs); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return abs
}

// The part of SARIF 2.1.0 that describes findings and their positions.
type (
	// A SARIFLog is a report for code scanners and editors.
	SARIFLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string       `json:"id"`
		ShortDescription     sarifMessage `json:"shortDescription"`
		DefaultConfiguration struct {
			Level string `json:"level"`
		} `json:"defaultConfiguration"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"` // error or warning, as in Severity
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		PhysicalLocation struct {
			ArtifactLocation struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region *sarifRegion `json:"region,omitempty"`
		} `json:"physicalLocation"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
)

// SARIF returns a report of one run with all findings. Paths below the working directory are
// relative to it, as GitHub requires.
func SARIF(found []Finding) SARIFLog {
	driver := sarifDriver{Name: "grapnel", Version: hookcmd.Version, InformationURI: "https://github.com/grapnel-dev/grapnel"}
	for _, kind := range findingKinds {
		rule := sarifRule{ID: kind.Rule, ShortDescription: sarifMessage{kind.About}}
		rule.DefaultConfiguration.Level = kind.Severity
		driver.Rules = append(driver.Rules, rule)
	}
	run := sarifRun{Tool: sarifTool{driver}, ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	for _, f := range found {
		var at sarifLocation
		at.PhysicalLocation.ArtifactLocation.URI = fileURI(underHere(f.File))
		if f.Line > 0 {
			at.PhysicalLocation.Region = &sarifRegion{f.Line, max(1, f.Col)}
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Rule, RuleIndex: slices.IndexFunc(findingKinds, func(k Kind) bool { return k.Rule == f.Rule }), Level: f.Severity,
			Message: sarifMessage{cmp.Or(f.message(), f.Rule)}, Locations: []sarifLocation{at},
		})
	}
	return SARIFLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

// fileURI returns the URI of a file. It is relative if the path is relative.
func fileURI(file string) string {
	path := filepath.ToSlash(file)
	if !filepath.IsAbs(file) {
		return (&url.URL{Path: path}).String()
	}
	if !strings.HasPrefix(path, "/") { // C:/...
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
