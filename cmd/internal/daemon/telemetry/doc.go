// Package telemetry exports the daemon's activity: metrics for Prometheus, traces and logs for
// OpenTelemetry, and the daemon's own log.
//
//	metrics := telemetry.NewMetrics(telemetry.MetricsOptions{Version: "1.2.3"})
//	engine, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{metrics}})
//	mux.Handle("GET /metrics", metrics.Handler())
//
//	opts, err := telemetry.FromEnv(os.Getenv) // of the daemon, never of a hook
//	export, err := telemetry.NewExport(opts)  // nil if no collector is named; a nil Export does nothing
//	go export.Run(ctx)
//
// No reply waits for telemetry: data for a collector goes through a queue of fixed size. If the
// queue is full, new data is dropped and counted.
//
// The package stores and reads no Records. It gets the state of the log and of the deliveries
// from small functions that the daemon passes.
package telemetry
