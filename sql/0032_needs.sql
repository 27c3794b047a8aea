-- duetime: which programs may work beside a migration that they do not have. See sql/README.md, "Migrations and programs".

ALTER TABLE schema_migrations ADD COLUMN needs INT NULL
  COMMENT 'programs with this migration, or a later one, work on a schema with that one; NULL = only those with that one itself';
