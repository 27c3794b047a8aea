// Rows of a list that the user selects for a change. Only rows that are shown stay selected.
import {useState} from 'preact/hooks';
import {count} from '../format.js';

// {ids, column, all}: the selected ids, the column of boxes for a table, and the box that selects every row.
export function useSelection(rows, nameOf = (row) => row.key || row.id) {
  const [chosen, choose] = useState([]);
  const shown = rows.map((row) => row.id);
  const ids = chosen.filter((id) => shown.includes(id));
  const toggle = (id) => choose(ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id]);
  const all = <input type="checkbox" aria-label="Select all rows" checked={ids.length > 0 && ids.length === shown.length} onChange={() => choose(ids.length === shown.length ? [] : shown)} />;
  const of = (row) => <input type="checkbox" aria-label={`Select ${nameOf(row)}`} checked={ids.includes(row.id)} onChange={() => toggle(row.id)} />;
  return {ids, clear: () => choose([]), column: {name: 'Select', kind: 'select', head: all, of}};
}

// What can be done with the selected rows; nothing while none is selected. verbs: [[name, act(ids)]]
export function Selected({ids, verbs, clear}) {
  if (!ids.length) return null;
  return (
    <div class="selected" role="toolbar" aria-label="Selected jobs">
      <strong>{count(ids.length)} selected</strong>
      {verbs.map(([name, act]) => <button key={name} type="button" class={name.startsWith('Cancel') ? 'danger' : ''} onClick={() => act(ids)}>{name}</button>)}
      <button type="button" class="plain" onClick={clear}>Select none</button>
    </div>
  );
}
