//! What a session brings along, and what the model agent makes of it: a host of the test's own, a model server that says
//! what a script says, the published client, and real files. Whoever finds the files is the test's own.

mod roles;
mod rules;
mod scene;
mod shown;
mod skills;
