package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestFromEnv(t *testing.T) {
	t.Parallel()
	const p = "OTEL_EXPORTER_OTLP_"
	base := map[string]string{p + "ENDPOINT": "http://127.0.0.1:4318"}
	both := ExportOptions{Traces: "http://127.0.0.1:4318/v1/traces", Logs: "http://127.0.0.1:4318/v1/logs", Series: "http://127.0.0.1:4318/v1/metrics"}
	with := func(change func(*ExportOptions)) ExportOptions {
		o := both
		change(&o)
		return o
	}
	for name, tt := range map[string]struct {
		env  map[string]string
		want ExportOptions
		err  string
	}{
		"nothing":      {},
		"other things": {env: map[string]string{"OTEL_SERVICE_NAME": "x", p + "HEADERS": "broken"}},
		"base":         {env: base, want: both},
		"with a path":  {env: map[string]string{p + "ENDPOINT": " https://c.example/otlp/ "}, want: ExportOptions{Traces: "https://c.example/otlp/v1/traces", Logs: "https://c.example/otlp/v1/logs", Series: "https://c.example/otlp/v1/metrics"}},
		"traces only":  {env: map[string]string{p + "TRACES_ENDPOINT": "http://c:1/t"}, want: ExportOptions{Traces: "http://c:1/t"}},
		"no logs":      {env: map[string]string{"OTEL_LOGS_EXPORTER": "none"}, want: with(func(o *ExportOptions) { o.Logs = "" })},
		"no metrics":   {env: map[string]string{"OTEL_METRICS_EXPORTER": "none"}, want: with(func(o *ExportOptions) { o.Series = "" })},
		"prometheus":   {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, want: with(func(o *ExportOptions) { o.Series = "" })},
		"metrics only": {env: map[string]string{p + "METRICS_ENDPOINT": "http://c:1/m", "OTEL_METRIC_EXPORT_INTERVAL": "5000"}, want: ExportOptions{Series: "http://c:1/m", Every: 5 * time.Second}},
		"disabled":     {env: map[string]string{"OTEL_SDK_DISABLED": "True"}},
		"headers":      {env: map[string]string{p + "HEADERS": "api-key=a%20b%3D, x-tenant = 7,"}, want: with(func(o *ExportOptions) { o.Headers = map[string]string{"api-key": "a b=", "x-tenant": "7"} })},
		"resource": {env: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.name=a,deployment.environment.name=prod"}, want: with(func(o *ExportOptions) {
			o.Service, o.Resource = "a", map[string]string{"service.name": "a", "deployment.environment.name": "prod"}
		})},
		"service name":   {env: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.name=a", "OTEL_SERVICE_NAME": "b"}, want: with(func(o *ExportOptions) { o.Service, o.Resource = "b", map[string]string{"service.name": "a"} })},
		"gzip":           {env: map[string]string{p + "COMPRESSION": "gzip"}, want: with(func(o *ExportOptions) { o.Gzip = true })},
		"protobuf":       {env: map[string]string{p + "PROTOCOL": "http/protobuf"}, want: both},
		"sampler":        {env: map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, want: with(func(o *ExportOptions) { o.Sampler, o.Ratio = "traceidratio", 0.25 })},
		"sampler of all": {env: map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, want: with(func(o *ExportOptions) { o.Sampler, o.Ratio = "parentbased_traceidratio", 1 })},
		"sizes": {
			env: map[string]string{p + "TIMEOUT": "2500", "OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_BSP_MAX_QUEUE_SIZE": "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "5"},
			want: with(func(o *ExportOptions) {
				o.Timeout, o.Interval, o.Queue, o.Batch = 2500*time.Millisecond, 100*time.Millisecond, 10, 5
			}),
		},
		"grpc":             {env: map[string]string{p + "PROTOCOL": "grpc"}, err: "port 4318"},
		"another exporter": {env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, err: "want otlp or none"},
		"prometheus spans": {env: map[string]string{"OTEL_TRACES_EXPORTER": "prometheus"}, err: "want otlp or none"},
		"bad interval":     {env: map[string]string{"OTEL_METRIC_EXPORT_INTERVAL": "1m"}, err: "milliseconds"},
		"no URL":           {env: map[string]string{p + "ENDPOINT": "localhost:4318"}, err: "begin with http"},
		"not even parsed":  {env: map[string]string{p + "ENDPOINT": "http://[s3cret"}, err: "not a URL"},
		"password":         {env: map[string]string{p + "ENDPOINT": "http://me:s3cret@c"}, err: "HEADERS"},
		"bad headers":      {env: map[string]string{p + "HEADERS": "s3cret"}, err: "part 1 is not key=value"},
		"bad escape":       {env: map[string]string{p + "HEADERS": "key=s3cret%zz"}, err: `value of "key"`},
		"bad compression":  {env: map[string]string{p + "COMPRESSION": "zstd"}, err: "gzip or none"},
		"bad sampler":      {env: map[string]string{"OTEL_TRACES_SAMPLER": "jaeger_remote"}, err: "unknown sampler"},
		"bad ratio":        {env: map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, err: "between 0 and 1"},
		"ratio NaN":        {env: map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN"}, err: "between 0 and 1"},
		"bad timeout":      {env: map[string]string{p + "TIMEOUT": "10s"}, err: "milliseconds"},
		"bad queue":        {env: map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "99999999"}, err: "below a million"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromEnv(func(key string) string {
				if v, ok := tt.env[key]; ok {
					return v
				}
				if name == "nothing" || name == "other things" || tt.env[p+"TRACES_ENDPOINT"] != "" || tt.env[p+"METRICS_ENDPOINT"] != "" {
					return ""
				}
				return base[key]
			})
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(ExportOptions{})); diff != "" {
				t.Errorf("FromEnv(%v) (-want +got):\n%s", tt.env, diff)
			}
			switch {
			case (err != nil) != (tt.err != ""), err != nil && !strings.Contains(err.Error(), tt.err):
				t.Errorf("FromEnv(%v): error %v, want %q", tt.env, err, tt.err)
			case err != nil && strings.Contains(err.Error(), "s3cret"):
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}
