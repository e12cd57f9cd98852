//! Template variables in a task's command and arguments, such as `{{.outputPrefix}}`.
