// A list: a table on a wide screen, a card for each row on a narrow one. Rows are links; j and k move between them.
import {href as hrefOf} from '../router.js';

export function Table({columns, rows, keyOf, linkOf, label, toneOf = () => ''}) {
  const shown = columns.filter(Boolean);
  const linked = shown.find(({kind}) => kind !== 'select');
  return (
    <table class="list" aria-label={label}>
      <thead><tr>{shown.map((column) => <th key={column.name} scope="col" class={column.kind || ''}>{column.head || column.name}</th>)}</tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)} class={toneOf(row)}>
            {shown.map((column) => (
              <td key={column.name} class={column.kind || ''} data-label={column.name}>
                {column === linked && linkOf ? <a class="row" href={linkOf(row)}>{column.of(row)}</a> : <span>{column.of(row)}</span>}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// Links to the first and the next page. The cursor is in the URL, so the browser's back button returns to the previous page.
export function Pages({path, query, next}) {
  if (!query.cursor && !next) return null;
  return (
    <nav class="pages" aria-label="Pages">
      {query.cursor && <a class="button" href={hrefOf(path, {...query, cursor: ''})}>First page</a>}
      {next && <a class="button" rel="next" href={hrefOf(path, {...query, cursor: next})}>Next page</a>}
      {!next && <span class="quiet">End of the list.</span>}
    </nav>
  );
}
