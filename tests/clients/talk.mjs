// A talk with a tool by the official SDK for Node, which runs the tool itself; prints all that came, in order, as JSON.
//   node talk.mjs BASE_URL TURNS stream|whole

import OpenAI from 'openai';

const [base, turns, form] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'sk-client', maxRetries: 0 });
const tools = [
  {
    type: 'function',
    function: {
      name: 'read',
      parameters: { type: 'object', properties: {} },
      parse: JSON.parse,
      function: () => 'milk',
    },
  },
];
const streamed = form === 'stream' ? { stream: true, stream_options: { include_usage: true } } : { stream: false };
const came = [];
let messages = [];
for (let turn = 0; turn < Number(turns); turn += 1) {
  messages.push({ role: 'user', content: `Question ${turn}: what is in my notes?` });
  const runner = client.chat.completions.runTools({ model: 'm-1', messages, tools, ...streamed });
  runner.on('chunk', (chunk) => came.push(chunk));
  runner.on('chatCompletion', (completion) => came.push(completion));
  await runner.finalContent();
  messages = runner.messages;
}
console.log(JSON.stringify({ came, messages }));
