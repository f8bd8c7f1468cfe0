package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var (
	tojsonFilter = regexp.MustCompile(`\|\s*tojson\b`)
	tagName      = regexp.MustCompile(`^\s*([a-z]+)`)
	endRaw       = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*([-+]?)%\}`)
	literal      = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	newlines     = strings.NewReplacer("\r\n", "\n", "\r", "\n")
)

// templateTag is one {{ … }}, {% … %} or {# … #} of a template.
type templateTag struct {
	kind    byte // '{', '%' or '#'
	content string
	before  byte // '-' or '+' behind the opener, else 0
	after   byte // '-' or '+' in front of the closer, else 0
	length  int  // in the source
}

// templateRewriter turns a template into one that means the same to the
// library. It places white space as Jinja2's lexer does with trim_blocks and
// lstrip_blocks on (the library trims through neighbouring tags), writes text
// as string literals so that nothing is trimmed twice, makes the tojson filter
// ours (the library's sorts keys and escapes <, > and & where it indents), and
// has macros count how deep they are.
type templateRewriter struct {
	src         string
	out         strings.Builder
	startOfLine bool
	blocks      int
}

// prepareTemplate checks a template's size and depth and rewrites it.
func prepareTemplate(src string) (string, error) {
	if len(src) > maxTemplate {
		return "", fmt.Errorf("%d bytes long, more than %d", len(src), maxTemplate)
	}
	src = strings.TrimSuffix(newlines.Replace(src), "\n")
	r := &templateRewriter{src: src, startOfLine: true}
	for {
		i := nextTag(r.src)
		if i == len(r.src) {
			r.text(r.src)
			return r.out.String(), nil
		}
		tag, err := scanTag(r.src[i:])
		if err != nil {
			return "", err
		}
		r.text(textBefore(r.src[:i], tag, r.startOfLine))
		r.src = r.src[i+tag.length:]
		r.trimAfter(tag)
		if err := r.tag(tag); err != nil {
			return "", err
		}
	}
}

func (r *templateRewriter) text(s string) {
	if s != "" {
		r.out.WriteString(`{{ "` + literal.Replace(s) + `" }}`)
	}
}

// textBefore applies a tag's left side to the text in front of it: "-" removes
// white space; else a block or comment that is alone on its line so far removes
// the line's indentation.
func textBefore(s string, tag templateTag, startOfLine bool) string {
	switch {
	case tag.before == '-':
		return strings.TrimRightFunc(s, unicode.IsSpace)
	case tag.before == '+' || tag.kind == '{':
		return s
	}
	line := strings.LastIndexByte(s, '\n') + 1
	if (line > 0 || startOfLine) && strings.TrimSpace(s[line:]) == "" {
		return s[:line]
	}
	return s
}

// trimAfter applies a tag's right side to the source behind it.
func (r *templateRewriter) trimAfter(tag templateTag) {
	r.startOfLine = false
	switch {
	case tag.after == '-':
		rest := strings.TrimLeftFunc(r.src, unicode.IsSpace)
		n := len(r.src) - len(rest)
		r.startOfLine = n > 0 && r.src[n-1] == '\n'
		r.src = rest
	case tag.kind != '{' && tag.after != '+' && strings.HasPrefix(r.src, "\n"):
		r.startOfLine = true
		r.src = r.src[1:]
	}
}

// tag writes one tag.
func (r *templateRewriter) tag(tag templateTag) error {
	content := tojsonFilter.ReplaceAllString(tag.content, "| "+toJSON)
	if tag.kind == '#' {
		return nil
	}
	if tag.kind == '{' {
		r.out.WriteString("{{ " + content + " }}")
		return nil
	}
	name := ""
	if m := tagName.FindStringSubmatch(content); m != nil {
		name = m[1]
	}
	switch name {
	case "raw":
		return r.raw()
	case "generation", "endgeneration": // marks what the assistant said; renders as its contents
		return nil
	case "if", "for", "macro", "call", "filter", "block":
		if r.blocks++; r.blocks > maxTemplateDepth {
			return fmt.Errorf("blocks nested more than %d deep", maxTemplateDepth)
		}
	case "endif", "endfor", "endmacro", "endcall", "endfilter", "endblock":
		r.blocks--
	}
	if name == "endmacro" {
		r.out.WriteString("{% set " + leaveMacro + "_done = " + leaveMacro + "() %}")
	}
	r.out.WriteString("{% " + content + " %}")
	if name == "macro" {
		r.out.WriteString("{% set " + enterMacro + "_done = " + enterMacro + "() %}")
	}
	return nil
}

// raw copies everything up to the endraw tag as text.
func (r *templateRewriter) raw() error {
	m := endRaw.FindStringSubmatchIndex(r.src)
	if m == nil {
		return errors.New("raw block without an end")
	}
	tag := templateTag{kind: '%'}
	if m[2] < m[3] {
		tag.before = r.src[m[2]]
	}
	if m[4] < m[5] {
		tag.after = r.src[m[4]]
	}
	r.text(textBefore(r.src[:m[0]], tag, r.startOfLine))
	r.src = r.src[m[1]:]
	r.trimAfter(tag)
	return nil
}

// nextTag returns the offset of the next tag in src, or its length.
func nextTag(src string) int {
	for i := 0; i+1 < len(src); i++ {
		if src[i] == '{' && (src[i+1] == '{' || src[i+1] == '%' || src[i+1] == '#') {
			return i
		}
	}
	return len(src)
}

// scanTag reads the tag at the start of src. Its end is the first closer that
// is not in a string or inside brackets; braces that would look like one to the
// library are set apart.
func scanTag(src string) (templateTag, error) {
	tag := templateTag{kind: src[1]}
	closer := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[tag.kind]
	i := 2
	if i < len(src) && (src[i] == '-' || src[i] == '+') {
		tag.before = src[i]
		i++
	}
	if tag.kind == '#' {
		n := strings.Index(src[i:], closer)
		if n < 0 {
			return tag, errors.New("comment without an end")
		}
		tag.content, tag.length = src[i:i+n], i+n+2
		return tag.trimmed(), nil
	}
	var content strings.Builder
	depth, quote := 0, byte(0)
	for ; i < len(src); i++ {
		c := src[i]
		switch {
		case quote != 0:
			if c == '\\' && i+1 < len(src) {
				content.WriteByte(c)
				i++
				c = src[i]
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case depth == 0 && strings.HasPrefix(src[i:], closer):
			tag.content, tag.length = content.String(), i+2
			return tag.trimmed(), nil
		case c == '(' || c == '[' || c == '{':
			if depth++; depth > maxTemplateDepth {
				return tag, fmt.Errorf("brackets nested more than %d deep", maxTemplateDepth)
			}
		case c == ')' || c == ']' || c == '}':
			depth = max(depth-1, 0)
			content.WriteByte(c)
			c = ' '
		}
		content.WriteByte(c)
	}
	return tag, fmt.Errorf("tag without an end: %.40q", src)
}

// trimmed moves a sign at the end of the content to where it belongs.
func (t templateTag) trimmed() templateTag {
	if n := len(t.content); n > 0 && (t.content[n-1] == '-' || t.content[n-1] == '+') {
		t.content, t.after = t.content[:n-1], t.content[n-1]
	}
	return t
}
