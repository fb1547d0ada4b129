package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/windrow-run/windrow/api/durable"
)

type storyInput struct {
	Chunks  int      `json:"chunks,omitempty" jsonschema:"description=How many chunks to stream,default=300,minimum=1,maximum=100000"`
	Seconds *float64 `json:"seconds,omitempty" jsonschema:"description=Over how many seconds,default=10,minimum=0,maximum=86400"`
}

// storyState is the checkpoint: the number of the next chunk. All else follows from the input.
type storyState struct {
	Next int `json:"next"`
}

type storyChunk struct {
	Index int    `json:"index"`
	Text  string `json:"text"`
}

type storyResult struct {
	Chunks     int `json:"chunks"`
	Paragraphs int `json:"paragraphs"`
}

const paragraphs = 10

// defineStory streams a story word by word and saves after each paragraph. Whatever happens to its process, the next
// attempt goes on with the first paragraph that was not saved.
func defineStory(p Params) (durable.Deployment, error) {
	return durable.Define("story", p.Revision, tell, nil)
}

func tell(c durable.Context, in storyInput) (storyResult, error) {
	s := newStory(in)
	var state storyState
	if _, err := durable.Restore(c, &state); err != nil {
		return storyResult{}, err
	}
	pace := newPace(s.duration, s.chunks, state.Next)
	for state.Next < s.chunks {
		paragraph := s.paragraphOf(state.Next)
		if err := s.tellParagraph(c, pace, state.Next, s.end(paragraph)); err != nil {
			return storyResult{}, err
		}
		state.Next = s.end(paragraph)
		message := fmt.Sprintf("Paragraph %d of %d is told.", paragraph+1, s.paragraphs)
		if err := durable.Report(c, durable.Event{Kind: "paragraph", Message: message, Metadata: state}); err != nil {
			return storyResult{}, err
		}
		if err := durable.Save(c, state); err != nil {
			return storyResult{}, err
		}
	}
	return storyResult{Chunks: s.chunks, Paragraphs: s.paragraphs}, nil
}

// story is what is told: so many chunks, split evenly into paragraphs, over a time.
type story struct {
	chunks, paragraphs int
	duration           time.Duration
}

func newStory(in storyInput) story {
	s := story{chunks: in.Chunks, duration: 10 * time.Second}
	if s.chunks == 0 {
		s.chunks = 300
	}
	if in.Seconds != nil {
		s.duration = time.Duration(*in.Seconds * float64(time.Second))
	}
	s.paragraphs = min(paragraphs, s.chunks)
	return s
}

// end is the number of the first chunk after a paragraph, from 0.
func (s story) end(paragraph int) int { return (paragraph + 1) * s.chunks / s.paragraphs }

func (s story) paragraphOf(chunk int) int {
	for p := range s.paragraphs {
		if chunk < s.end(p) {
			return p
		}
	}
	return s.paragraphs - 1
}

func (s story) tellParagraph(c durable.Context, pace pace, from, to int) error {
	if err := durable.Check(c); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if err := pace.wait(c, i); err != nil {
			return err
		}
		if err := durable.Stream(c, storyChunk{Index: i, Text: s.text(i)}); err != nil {
			return err
		}
	}
	return nil
}

// text is what chunk i says: the next word of a sentence that goes round, with a blank line before a new paragraph.
func (s story) text(i int) string {
	words := strings.Fields("The wind turned in the night, and the hay lay in long rows across the field. Somebody would " +
		"come for it in the morning; if not this one, then the next. Nothing that was cut was lost.")
	text := words[i%len(words)] + " "
	if p := s.paragraphOf(i); p > 0 && i == s.end(p-1) {
		text = "\n\n" + text
	}
	return text
}

// pace tells when each chunk is due. It counts from the whole story and not from the attempt's share, so that an attempt
// that goes on in the middle is neither faster nor slower.
type pace struct {
	start    time.Time // when chunk 0 was due, or would have been
	duration time.Duration
	chunks   int
}

func newPace(duration time.Duration, chunks, next int) pace {
	p := pace{duration: duration, chunks: chunks}
	p.start = time.Now().Add(-p.offset(next))
	return p
}

// offset of chunk i from the start. Floating point, since the product of two large integers could overflow.
func (p pace) offset(i int) time.Duration {
	return time.Duration(float64(p.duration) * float64(i) / float64(p.chunks))
}

// wait returns when chunk i is due, or with the reason to stop.
func (p pace) wait(c context.Context, i int) error {
	timer := time.NewTimer(time.Until(p.start.Add(p.offset(i))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.Done():
		return context.Cause(c)
	}
}
