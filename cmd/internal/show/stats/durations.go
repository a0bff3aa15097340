package stats

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
)

// durations are durations in milliseconds. Durations from stored Counters are rounded. The maximum
// is always exact.
type durations struct {
	exact  []float64
	stored buckets
	max    float64
}

// buckets are the numbers of durations by rounded duration; see bucketOf.
type buckets map[int]int

// MarshalJSON returns a string with pairs of varints: the difference to the last bucket, and its
// number. A day may have a million pairs, which take too long to decode as members of objects.
func (b buckets) MarshalJSON() ([]byte, error) {
	var data []byte
	last := 0
	for _, bucket := range slices.Sorted(maps.Keys(b)) {
		data = binary.AppendUvarint(binary.AppendVarint(data, int64(bucket-last)), uint64(b[bucket])) // not negative
		last = bucket
	}
	return json.Marshal(data)
}

// UnmarshalJSON reads the form of MarshalJSON.
func (b *buckets) UnmarshalJSON(raw []byte) error {
	var data []byte
	if err := json.Unmarshal(raw, &data); err != nil {
		return err
	}
	*b = make(buckets, len(data)/2)
	bucket := 0
	for len(data) > 0 {
		step, size := binary.Varint(data)
		if size <= 0 {
			return errors.New("damaged durations")
		}
		n, more := binary.Uvarint(data[size:])
		if more <= 0 || n > math.MaxInt32 {
			return errors.New("damaged durations")
		}
		bucket += int(step)
		(*b)[bucket] += int(n)
		data = data[size+more:]
	}
	return nil
}

// bucketsPerE is the number of buckets while a duration grows by the factor e. A bucket is 2 %
// wide, so a rounded duration differs by at most 1 %.
const bucketsPerE = 50

// bucketOf returns the bucket of a duration. Below a microsecond, all durations are equal.
func bucketOf(ms float64) int { return int(math.Round(math.Log(max(ms, 0.001)) * bucketsPerE)) }

func ofBucket(b int) float64 { return math.Exp(float64(b) / bucketsPerE) }

func (d *durations) add(ms float64) {
	d.exact = append(d.exact, ms)
	d.max = max(d.max, ms)
}

// addRounded adds rounded durations with their exact maximum.
func (d *durations) addRounded(b buckets, longest float64) {
	if d.stored == nil {
		d.stored = buckets{}
	}
	for bucket, n := range b {
		d.stored[bucket] += n
	}
	d.max = max(d.max, longest)
}

// rounded returns all durations, rounded.
func (d *durations) rounded() buckets {
	b := buckets{}
	for bucket, n := range d.stored {
		b[bucket] += n
	}
	for _, ms := range d.exact {
		b[bucketOf(ms)]++
	}
	return b
}

// percentiles returns the smallest duration that at least half of the durations do not exceed,
// the same for 95 %, and the longest duration.
func (d *durations) percentiles() (p50, p95, longest float64) {
	type weighted struct {
		ms float64
		n  int
	}
	list := make([]weighted, 0, len(d.exact)+len(d.stored))
	total := len(d.exact)
	for _, ms := range d.exact {
		list = append(list, weighted{ms, 1})
	}
	for bucket, n := range d.stored {
		list = append(list, weighted{min(ofBucket(bucket), d.max), n})
		total += n
	}
	slices.SortFunc(list, func(a, b weighted) int { return cmp.Compare(a.ms, b.ms) })
	percentile := func(p int) float64 {
		left := (total*p + 99) / 100
		for _, w := range list {
			if left -= w.n; left <= 0 {
				return w.ms
			}
		}
		return d.max
	}
	return percentile(50), percentile(95), d.max
}
