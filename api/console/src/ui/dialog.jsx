// Confirmation dialogs, and messages about their outcome. One dialog at a time; Escape cancels.
import {useEffect, useRef, useState} from 'preact/hooks';

let show = () => {};
let tell = () => {};

// question({title, body, fields, yes, danger, act}): "yes" calls act(values). If act throws, the dialog stays open and shows the error. If
// act returns a text, a message shows it afterwards. `body` may be a component, which gets {values}. Enter means yes if a field has the
// focus, or if there are no fields and `danger` is not set.
export function question(of) {
  show(of);
}

// A message at the foot of the page, which screen readers read out.
export function say(text) {
  tell({text, at: Date.now()});
}

function Field({field, values, set}) {
  const id = `field-${field.name}`;
  const value = values[field.name] ?? '';
  const changed = (event) => set({...values, [field.name]: field.type === 'checkbox' ? event.target.checked : event.target.value});
  const common = {id, name: field.name, onInput: changed, required: field.required, placeholder: field.placeholder, autofocus: field.autofocus};
  return (
    <div class={`field ${field.type === 'checkbox' ? 'check' : ''}`}>
      <label for={id}>{field.label}</label>
      {field.choices ? <select {...common} value={value}>{field.choices.map((choice) => <option key={choice} value={choice}>{choice}</option>)}</select>
        : field.type === 'text-lines' ? <textarea {...common} rows={field.rows || 8} spellcheck={false} value={value} />
        : field.type === 'checkbox' ? <input {...common} type="checkbox" checked={!!value} />
        : <input {...common} type={field.type || 'text'} value={value} autocomplete="off" spellcheck={false} />}
      {field.hint && <small class="quiet">{field.hint}</small>}
    </div>
  );
}

function Question({of, close}) {
  const [values, set] = useState(() => Object.fromEntries((of.fields || []).map((field) => [field.name, field.value ?? ''])));
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const box = useRef();
  useEffect(() => box.current.showModal(), []);
  async function act(event) {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const told = await of.act(values);
      close();
      if (typeof told === 'string') say(told);
    } catch (error) {
      setProblem(error.lines || [error.message]);
      setBusy(false);
    }
  }
  const Body = typeof of.body === 'function' ? of.body : null;
  return (
    <dialog ref={box} onClose={close} aria-labelledby="question">
      <form onSubmit={act}>
        <h2 id="question">{of.title}</h2>
        {Body ? <Body values={values} /> : of.body && <div>{of.body}</div>}
        {(of.fields || []).map((field) => <Field key={field.name} field={field} values={values} set={set} />)}
        {problem && <div class="note bad" role="alert">{problem.map((line) => <div key={line}>{line}</div>)}</div>}
        <div class="buttons">
          <button type="button" onClick={close}>{of.no || 'Back'}</button>
          <button type="submit" class={of.danger ? 'danger' : 'primary'} autofocus={!of.danger && !of.fields?.length} disabled={busy || of.blocked?.(values)}>{busy ? 'Working…' : of.yes}</button>
        </div>
      </form>
    </dialog>
  );
}

export function Dialogs() {
  const [asked, setAsked] = useState(null);
  const [told, setTold] = useState(null);
  useEffect(() => {
    show = (of) => setAsked({of, key: Date.now()});
    tell = setTold;
  }, []);
  useEffect(() => {
    if (!told) return undefined;
    const timer = setTimeout(() => setTold(null), 6000);
    return () => clearTimeout(timer);
  }, [told]);
  return (
    <>
      {asked && <Question key={asked.key} of={asked.of} close={() => setAsked(null)} />}
      <div class={`told ${told?.text ? '' : 'silent'}`} role="status" aria-live="polite">{told?.text}</div>
    </>
  );
}
