// One page of the runbook by its URL.
import {Title} from '../ui/parts.jsx';
import {Runbook} from '../ui/runbook.jsx';

export function RunbookPage({id}) {
  return <><Title>{id}</Title><Runbook name={id} /></>;
}
