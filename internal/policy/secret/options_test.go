package secret

import (
	"strings"
	"testing"
)

// Passwords in the options and arguments of commands are hidden in Records.
func TestHideOptions(t *testing.T) {
	t.Parallel()
	const password = "Sup3rS3cretPw9"
	for _, line := range []string{
		`mysql -uroot -pPASSWORD shop`,
		`mysqldump -p'PASSWORD' shop > a.sql`,
		`redis-cli -a PASSWORD ping`,
		`docker login -u me -p PASSWORD registry.example.com`,
		`mongosh -u me -p PASSWORD mongodb://db`,
		`az login -u me -p PASSWORD`,
		`gh secret set TOKEN -b PASSWORD`,
		`gh secret set TOKEN --body 'PASSWORD'`,
		`unzip -P PASSWORD a.zip`,
		`openssl enc -aes-256-cbc -k PASSWORD -in a`,
		`openssl enc -pass pass:PASSWORD -in a`,
		`htpasswd -nb me PASSWORD`,
		`htpasswd -bc .htpasswd me PASSWORD`,
		`echo PASSWORD | sudo -S ls`,
		`printf '%s' PASSWORD | docker login --password-stdin -u me`,
		`npm config set //registry.example.com/:_authToken PASSWORD`,
		`sshpass -p PASSWORD ssh a`,
		`mysql --password=PASSWORD`,
		`curl -u me:PASSWORD https://a.example`,
		`7z x -pPASSWORD a.7z`,
		`zip -P PASSWORD a.zip b`,
		`psql postgres://me:PASSWORD@db/shop`,
		`mosquitto_pub -u me -P PASSWORD -t a`,
		`ldapsearch -D cn=me -w PASSWORD`,
		`smbclient //s/x -U me%PASSWORD`,
		`wget --password=PASSWORD https://a.example`,
		`vault login PASSWORD`,
		`aws configure set aws_secret_access_key PASSWORD`,
		`kubectl create secret generic a --from-literal=pw=PASSWORD`,
		`sqlcmd -U sa -P PASSWORD`,
		`gpg --passphrase PASSWORD -d a`,
		`keytool -storepass PASSWORD -list`,
		`git clone https://me:PASSWORD@git.example.com/x`,
		`heroku config:set KEY=PASSWORD`,
		`fly secrets set K=PASSWORD`,
		`wrangler secret put K <<< PASSWORD`,
		`helm registry login -u me -p PASSWORD r.example`,
		`podman login -u me --password PASSWORD r`,
		`skopeo login -p PASSWORD r`,
		`cqlsh -u me -p PASSWORD`,
		`clickhouse-client --password PASSWORD`,
		`rclone config create x sftp pass PASSWORD`,
		`nmcli dev wifi connect x password PASSWORD`,
		`wpa_passphrase home PASSWORD`,
		`chpasswd <<< 'me:PASSWORD'`,
		`echo 'me:PASSWORD' | chpasswd`,
		`net user me PASSWORD /add`,
		`passwd --stdin <<< PASSWORD`,
		`rabbitmqctl add_user me PASSWORD`,
	} {
		line := strings.ReplaceAll(line, "PASSWORD", password)
		if got := Hide(line); strings.Contains(got, password) {
			t.Errorf("Hide(%q) = %q", line, got)
		}
	}
	for _, line := range []string{
		`mysql -uroot -p shop`, `docker run -p 8080:80 web`, `docker login -u me`, `redis-cli -h cache ping`, `zip -r a.zip src`,
		`openssl enc -aes-256-cbc -in a`, `ldapsearch -x -b dc=example`, `echo hello | sudo tee a`, `gh secret list`, `ssh -p 2222 web`,
		`az login --use-device-code`, `vault login -method=github`, `kubectl create secret generic a --from-file=b`, `mkdir -p a/b`,
		`cp -p a b`, `npm config set registry https://registry.example.com`, `nmcli dev wifi list`, `passwd me`, `printf '%s' a | wc -c`,
	} {
		if got := Hide(line); got != line {
			t.Errorf("Hide(%q) = %q, want no change", line, got)
		}
	}
}
