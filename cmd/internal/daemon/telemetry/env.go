package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// FromEnv reads the OTEL_* variables that configure the daemon's telemetry. getenv is os.Getenv of
// the daemon. It must never read the environment of a hook: projects can write to that environment
// and would redirect the telemetry to any address.
//
// On an error the returned options name no collector.
func FromEnv(getenv func(string) string) (ExportOptions, error) {
	opts, err := fromEnv(func(name string) string { return strings.TrimSpace(getenv(name)) })
	if err != nil {
		return ExportOptions{}, err
	}
	return opts, nil
}

func fromEnv(get func(string) string) (opts ExportOptions, err error) {
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") {
		return opts, nil
	}
	if opts.Traces, err = endpoint(get, "TRACES", "v1/traces"); err != nil {
		return opts, err
	}
	if opts.Logs, err = endpoint(get, "LOGS", "v1/logs"); err != nil {
		return opts, err
	}
	if opts.Series, err = endpoint(get, "METRICS", "v1/metrics"); err != nil {
		return opts, err
	}
	if opts.Traces == "" && opts.Logs == "" && opts.Series == "" {
		return opts, nil
	}
	if opts.Headers, err = pairs(get("OTEL_EXPORTER_OTLP_HEADERS")); err != nil {
		return opts, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err) // without the value, which is a key
	}
	switch c := get("OTEL_EXPORTER_OTLP_COMPRESSION"); c {
	case "", "none":
	case "gzip":
		opts.Gzip = true
	default:
		return opts, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION=%.40q: want gzip or none", c)
	}
	if opts.Resource, err = pairs(get("OTEL_RESOURCE_ATTRIBUTES")); err != nil {
		return opts, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	opts.Service = get("OTEL_SERVICE_NAME")
	if opts.Service == "" {
		opts.Service = opts.Resource[attrServiceName]
	}
	opts.Sampler = get("OTEL_TRACES_SAMPLER")
	if strings.HasSuffix(opts.Sampler, "traceidratio") {
		opts.Ratio = 1
		if arg := get("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
			if opts.Ratio, err = strconv.ParseFloat(arg, 64); err != nil {
				return opts, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG=%.40q: want a number between 0 and 1", arg)
			}
		}
	}
	if _, err := newSampler(opts.Sampler, opts.Ratio); err != nil {
		return opts, fmt.Errorf("OTEL_TRACES_SAMPLER: %w", err)
	}
	for name, into := range map[string]*time.Duration{"OTEL_EXPORTER_OTLP_TIMEOUT": &opts.Timeout, "OTEL_BSP_SCHEDULE_DELAY": &opts.Interval, "OTEL_METRIC_EXPORT_INTERVAL": &opts.Every} {
		if text := get(name); text != "" {
			ms, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return opts, fmt.Errorf("%s=%.40q: want a number of milliseconds", name, text)
			}
			*into = time.Duration(ms) * time.Millisecond
		}
	}
	for name, into := range map[string]*int{"OTEL_BSP_MAX_QUEUE_SIZE": &opts.Queue, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": &opts.Batch} {
		if text := get(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 20)
			if err != nil {
				return opts, fmt.Errorf("%s=%.40q: want a number below a million", name, text)
			}
			*into = int(n)
		}
	}
	return opts, nil
}

// endpoint returns the URL of a signal; empty = the signal is not exported.
func endpoint(get func(string) string, signal, suffix string) (string, error) {
	switch e := get("OTEL_" + signal + "_EXPORTER"); {
	case e == "", e == "otlp":
	case e == "none", e == "prometheus" && signal == "METRICS": // the daemon always answers Prometheus
		return "", nil
	default:
		return "", fmt.Errorf("OTEL_%s_EXPORTER=%.40q: want otlp or none", signal, e)
	}
	name := "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"
	address := get(name)
	if address == "" {
		name, address = "OTEL_EXPORTER_OTLP_ENDPOINT", get("OTEL_EXPORTER_OTLP_ENDPOINT")
		if address != "" {
			u, err := url.Parse(address)
			if err != nil {
				return "", fmt.Errorf("%s: not a URL", name)
			}
			u.Path = path.Join("/", u.Path, suffix)
			address = u.String()
		}
	}
	if address == "" {
		return "", nil
	}
	if err := checkURL(address); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	protocol := get("OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL")
	if protocol == "" {
		protocol = get("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/json", "http/protobuf": // a collector that accepts one accepts the other: the content type decides
		return address, nil
	}
	return "", fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%.40q: Grapnel supports http/json, which collectors accept on port 4318", protocol)
}

// checkURL checks the address of a collector; an empty address is valid. Its errors do not repeat
// the address, because it may contain a key.
func checkURL(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("the address of the collector is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return errors.New("the address of the collector must begin with http:// or https:// and a host")
	case u.User != nil:
		return errors.New("the address of the collector contains a password: use OTEL_EXPORTER_OTLP_HEADERS")
	case u.Fragment != "":
		return errors.New("the address of the collector contains a #")
	}
	return nil
}

func checkHeader(name, value string) error {
	if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("header %.40q of the collector is not valid", name)
	}
	return nil
}

// pairs parses key=value,key=value with percent-encoded values. Its errors do not repeat the
// values.
func pairs(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	all := map[string]string{}
	for i, part := range strings.Split(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("part %d is not key=value", i+1)
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("the value of %.40q has an invalid percent-encoding", key)
		}
		all[key] = value
	}
	return all, nil
}
