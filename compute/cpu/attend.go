package cpu

import "surmise/compute"

// partialFloats bounds the memory for partial results of attention; beyond it
// the rows are worked on in several batches, one after the other.
const partialFloats = 4 << 20

// attendPlan is how attention of one kind (the spans and the shape of the heads)
// is cut into units. Layers that share spans share the plan.
type attendPlan struct {
	spans        []compute.Span
	heads        int // query heads
	kvHeads, dim int
	share        int // query heads of a key/value head
	bundles      []bundle
	rowBundle    []int32 // the bundle of each row
	units        []attendUnit
	batches      []attendBatch
	partials     int // values of the partial sums of the largest batch
	sums         int // (pair, chunk)s of the largest batch
}

// bundle is a run of rows that share a page table, and are worked on together.
// Its pairs are (row, query head of a key/value head): pair = row·share + head.
type bundle struct {
	row, rows     int
	chunk, chunks int // the chunks any of its rows sees
	tiles         tiling
	partial       int // its partial sums: [kvHead][tile][chunk][pairs of the tile][dim]
	sum           int // its maxima and sums: [kvHead][pair][chunk]
}

// attendUnit is (bundle, key/value head, chunk, tile).
type attendUnit struct{ bundle, head, chunk, tile int32 }

// attendBatch is a range of units and the rows they complete.
type attendBatch struct{ unit, units, row, rows int }

// matches tells whether the plan is the one for o.
func (a *attendPlan) matches(o *compute.Op, spec compute.KVSpec) bool {
	return len(a.spans) == len(o.Spans) && &a.spans[0] == &o.Spans[0] &&
		a.heads == o.Heads && a.kvHeads == spec.Heads && a.dim == spec.HeadDim
}

// build cuts o's work into units, reusing the plan's memory.
func (a *attendPlan) build(o *compute.Op, spec compute.KVSpec, threads int) {
	a.spans, a.heads, a.kvHeads, a.dim = o.Spans, o.Heads, spec.Heads, spec.HeadDim
	a.share = o.Heads / spec.Heads
	a.bundles, a.rowBundle, a.units, a.batches = a.bundles[:0], a.rowBundle[:0], a.units[:0], a.batches[:0]
	a.partials, a.sums = 0, 0
	most := a.tileSize(threads)
	var batch attendBatch
	partial, sum := 0, 0
	finish := func() {
		batch.units, batch.rows = len(a.units)-batch.unit, len(a.rowBundle)-batch.row
		a.batches = append(a.batches, batch)
		a.partials, a.sums = max(a.partials, partial), max(a.sums, sum)
		batch = attendBatch{unit: len(a.units), row: len(a.rowBundle)}
		partial, sum = 0, 0
	}
	for row := 0; row < len(a.spans); {
		b := a.nextBundle(row, partialFloats-partial)
		if b.rows == 0 {
			finish()
			b = a.nextBundle(row, partialFloats)
		}
		b.tiles = tileRows(b.rows*a.share, most)
		b.partial, b.sum = partial, sum
		pairs := b.rows * a.heads
		partial += pairs * b.chunks * a.dim
		sum += pairs * b.chunks
		a.addBundle(b)
		row += b.rows
	}
	finish()
}

// tileSize is the most pairs of a tile: fewer where there would not be enough
// units to keep all threads busy.
func (a *attendPlan) tileSize(threads int) int {
	most := maxPairs
	if threads == 1 || len(a.spans) > 2*threads {
		return most
	}
	for ; most > 1; most-- {
		units := 0
		for _, s := range a.spans {
			chunks := (int(s.Hi)-1)/chunkSize - int(s.Lo)/chunkSize + 1
			units += a.kvHeads * chunks * ((a.share + most - 1) / most)
		}
		if units >= 2*threads {
			break
		}
	}
	return most
}

// nextBundle takes rows from row on that share a page table while their partial
// sums fit room; the first row of a batch always fits.
func (a *attendPlan) nextBundle(row, room int) bundle {
	first := &a.spans[row]
	lo, hi := first.Lo, first.Hi
	b := bundle{row: row}
	for i := row; i < len(a.spans); i++ {
		s := &a.spans[i]
		if len(s.Pages) != len(first.Pages) || &s.Pages[0] != &first.Pages[0] {
			break
		}
		l, h := min(lo, s.Lo), max(hi, s.Hi)
		chunk := int(l) / chunkSize
		chunks := (int(h)-1)/chunkSize - chunk + 1
		if need := (b.rows + 1) * a.heads * a.dim * chunks; need > room && (b.rows > 0 || room < partialFloats) {
			break
		}
		lo, hi, b.chunk, b.chunks = l, h, chunk, chunks
		b.rows++
	}
	return b
}

func (a *attendPlan) addBundle(b bundle) {
	n := int32(len(a.bundles))
	a.bundles = append(a.bundles, b)
	for range b.rows {
		a.rowBundle = append(a.rowBundle, n)
	}
	// Tiles of a chunk come together, so that its pages stay in the cache.
	for h := range a.kvHeads {
		for c := range b.chunks {
			for t := range b.tiles.tiles {
				a.units = append(a.units, attendUnit{n, int32(h), int32(c), int32(t)})
			}
		}
	}
}

// attendPhase is the units of one batch of one attention operation.
type attendPhase struct {
	op     *compute.Op
	kv     *kv
	plan   *attendPlan
	batch  attendBatch
	pieces int64
}

func (p *attendPhase) work(d *Device, w *workspace, i int64) {
	n := int64(p.batch.units)
	for u, end := n*i/p.pieces, n*(i+1)/p.pieces; u < end; u++ {
		units := p.plan.units[p.batch.unit+int(u) : p.batch.unit+int(end)]
		w.attention.next = -1
		if len(units) > 1 {
			w.attention.next = p.firstKeys(units[1])
		}
		p.unit(d, w, units[0])
	}
}

// firstKeys is where the keys of a unit begin.
func (p *attendPhase) firstKeys(u attendUnit) int {
	b := &p.plan.bundles[u.bundle]
	s := &p.plan.spans[b.row]
	page := max((b.chunk+int(u.chunk))*chunkPages, int(s.Lo)/pageSize)
	return p.kv.keysAt(int(s.Pages[page]), p.op.Layer, int(u.head))
}

func (p *attendPhase) unit(d *Device, w *workspace, u attendUnit) {
	a, plan := &w.attention, p.plan
	b := &plan.bundles[u.bundle]
	head, chunk := int(u.head), int(u.chunk)
	first, n := b.tiles.tile(int(u.tile))
	dim, pairs := plan.dim, b.rows*plan.share
	a.pairs, a.dim = n, dim
	o := b.partial + (head*pairs+first)*b.chunks*dim + chunk*n*dim
	a.o = d.partials[o : o+n*dim]
	a.half, a.float = p.kv.half, p.kv.float
	base := (b.chunk + chunk) * chunkSize
	lo, hi := chunkSize, 0
	for i := range n {
		row, query := b.row+(first+i)/plan.share, head*plan.share+(first+i)%plan.share
		d.kernels.scale(a.q[i*queryStride:][:dim], p.op.A.Row(row)[query*dim:(query+1)*dim], p.op.Scale)
		s := &plan.spans[row]
		a.lo[i] = min(max(int(s.Lo)-base, 0), chunkSize)
		a.hi[i] = min(max(int(s.Hi)-base, 0), chunkSize)
		if a.lo[i] < a.hi[i] {
			lo, hi = min(lo, a.lo[i]), max(hi, a.hi[i])
		}
	}
	pages := plan.spans[b.row].Pages
	for j := lo / pageSize; j*pageSize < hi; j++ {
		page := int(pages[base/pageSize+j])
		a.keys[j] = p.kv.keysAt(page, p.op.Layer, head)
		a.values[j] = p.kv.valuesAt(page, p.op.Layer, head)
	}
	d.kernels.attend(a)
	for i := range n {
		at := b.sum + (head*pairs+first+i)*b.chunks + chunk
		d.maxima[at], d.sums[at] = a.m[i], a.l[i]
	}
}

// combine joins the chunks row r sees.
func (a *attendPlan) combine(d *Device, dst []float32, r int) {
	b, s := &a.bundles[a.rowBundle[r]], &a.spans[r]
	pairs := b.rows * a.share
	c0, c1 := int(s.Lo)/chunkSize-b.chunk, (int(s.Hi)-1)/chunkSize+1-b.chunk
	for h := range a.heads {
		pair := (r-b.row)*a.share + h%a.share
		first, n := b.tiles.of(pair)
		sum := b.sum + (h/a.share*pairs+pair)*b.chunks
		o := b.partial + (h/a.share*pairs+first)*b.chunks*a.dim + (pair-first)*a.dim
		d.kernels.combine(dst[h*a.dim:(h+1)*a.dim], d.maxima[sum+c0:sum+c1], d.sums[sum+c0:sum+c1],
			d.partials[o+c0*n*a.dim:], n*a.dim)
	}
}
