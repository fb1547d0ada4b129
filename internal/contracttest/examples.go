package contracttest

import "fmt"

// CheckExamples holds the examples of all bodies against their schemas, and returns how many there are.
func (c *Contract) CheckExamples() (count int, err error) {
	seen := map[string]bool{} // by pointer: a response that many operations share is looked at once
	var walk func(at place) error
	walk = func(at place) error {
		if seen[at.pointer] {
			return nil
		}
		seen[at.pointer] = true
		if examples, schema := at.get("examples"), at.get("schema"); examples.exists() && schema.exists() {
			for name, example := range examples.members() {
				count++
				if err := c.fits(schema, example.get("value").value); err != nil {
					return fmt.Errorf("the example %s at %s: %w", name, at.pointer, err)
				}
			}
		}
		for _, below := range at.members() {
			if err := walk(below); err != nil {
				return err
			}
		}
		return nil
	}
	err = walk(c.at("paths"))
	return count, err
}
