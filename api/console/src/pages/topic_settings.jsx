// The settings of a topic as a form. PUT replaces all settings, so the form sends back the ones that it does not show.
import {ask} from '../api.js';
import {go} from '../router.js';
import {question} from '../ui/dialog.jsx';

const orNull = (text) => (text.trim() ? text.trim() : null);

function fieldsOf(topic) {
  const value = (name) => topic?.[name] ?? '';
  return [
    ...(topic ? [] : [{name: 'name', label: 'Name', required: true, autofocus: true}]),
    {name: 'delivery', label: 'Delivery', value: topic?.delivery ?? '(default)', choices: [...(topic ? [] : ['(default)']), 'kafka', 'http', 'pull']},
    {name: 'retry', label: 'Retries after', value: topic?.retry?.join(', ') ?? '', placeholder: topic?.effective.retry.join(', '), hint: 'Delays such as 15s, 3m, 1h. Empty: the default. none: no retries.'},
    {name: 'ack_timeout', label: 'Report timeout', value: value('ack_timeout'), placeholder: topic?.effective.ack_timeout ?? 'PT5M'},
    {name: 'retention', label: 'Finished jobs kept for', value: value('retention'), placeholder: topic?.effective.retention ?? 'P30D'},
    {name: 'max_in_flight', label: 'Max in flight', type: 'number', value: value('max_in_flight'), placeholder: 'no limit'},
    {name: 'rate_limit', label: 'Max rate', value: value('rate_limit'), placeholder: '100/s'},
    {name: 'kafka_topic', label: 'Kafka topic', value: value('kafka_topic'), placeholder: topic?.effective.kafka_topic ?? 'its name'},
    {name: 'callback_url', label: 'Callback URL', value: value('callback_url'), placeholder: 'https://…'},
    {name: 'callback_hosts', label: 'Secrets also sent to', value: topic?.callback_hosts?.join(', ') ?? '', hint: 'Other origins, besides that of the callback URL, that may get the headers and the signature: https://hooks.example.com, …'},
    {name: 'callback_timeout', label: 'Callback timeout', value: value('callback_timeout'), placeholder: topic?.effective.callback_timeout ?? 'PT10S'},
  ];
}

const listOf = (text) => text.split(',').map((item) => item.trim()).filter(Boolean);

function retryOf(text) {
  if (!text.trim()) return null;
  return text.trim() === 'none' ? [] : listOf(text);
}

function bodyOf(topic, values) {
  const texts = ['ack_timeout', 'retention', 'rate_limit', 'kafka_topic', 'callback_url', 'callback_timeout'];
  return {
    ...topic,
    ...Object.fromEntries(texts.map((name) => [name, orNull(values[name])])),
    delivery: values.delivery === '(default)' ? null : values.delivery,
    retry: retryOf(values.retry),
    callback_hosts: listOf(values.callback_hosts),
    max_in_flight: values.max_in_flight === '' ? null : Number(values.max_in_flight),
  };
}

// topic null: a new topic.
export function editTopic(topic, done) {
  question({
    title: topic ? `Settings of ${topic.name}` : 'New topic', yes: topic ? 'Save' : 'Create', fields: fieldsOf(topic),
    act: async (values) => {
      const name = topic?.name ?? values.name.trim();
      await ask('PUT', `/v1/topics/${encodeURIComponent(name)}`, bodyOf(topic, values));
      done();
      if (!topic) go(['topics', name]);
      return topic ? 'The settings are saved.' : 'The topic is created.';
    },
  });
}
