"""What was found, for people and programs: text, JSON, markdown, JUnit, SARIF, HTML, notebooks."""
