// Schedules by name, with their next fires.
import {withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {spoken} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {Empty, Loading, Time, Title, Trouble} from '../ui/parts.jsx';
import {Pages, Table} from '../ui/table.jsx';
import {editSchedule} from './schedule_settings.jsx';

export function stateOf(schedule) {
  if (schedule.last_error) return <span class="state failed">failing</span>;
  return schedule.paused ? <span class="state paused">paused</span> : schedule.next_at ? <span class="state done">active</span> : <span class="state">ended</span>;
}

export const rhythm = (schedule) => <><span class="mono">{schedule.cron ?? `every ${spoken(schedule.every)}`}</span>{schedule.cron && <span class="quiet"> {schedule.time_zone}</span>}</>;

export function Schedules({query}) {
  const list = useLive(withQuery('/v1/schedules', {limit: 50, cursor: query.cursor}), 5000);
  const may = useMay();
  return (
    <>
      <Title actions={may('write') && <button type="button" onClick={() => editSchedule(null, list.refresh)}>New schedule</button>}>Schedules</Title>
      <Trouble problem={list.problem} shown={list.data} what="schedules" />
      <Loading of={list} />
      {list.data && !list.data.schedules.length && <Empty>No schedules yet. A schedule creates jobs repeatedly, by cron or at a fixed interval.</Empty>}
      {list.data?.schedules.length > 0 && (
        <Table label="Schedules" rows={list.data.schedules} keyOf={(schedule) => schedule.name} linkOf={(schedule) => href(['schedules', schedule.name])} columns={[
          {name: 'Schedule', of: (schedule) => schedule.name},
          {name: 'State', of: stateOf},
          {name: 'Fires', of: rhythm},
          {name: 'Topic', of: (schedule) => schedule.topic},
          {name: 'Next', of: (schedule) => <Time at={schedule.next_at} />},
        ]} />
      )}
      {list.data && <Pages path="schedules" query={query} next={list.data.next_cursor} />}
    </>
  );
}
