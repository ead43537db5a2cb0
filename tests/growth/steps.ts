// SPDX-License-Identifier: Apache-2.0
// Counts the steps of a call: entries of blocks of code, which V8 counts, and the work of built-in functions by the size of what they
// read or write. The counts do not depend on the machine or on its load.
import { Session } from "node:inspector";

const session = new Session();
session.connect();

let builtInSteps = 0;

function sizeOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (ArrayBuffer.isView(value)) return value.byteLength;
  if (Array.isArray(value)) return value.length;
  return 1;
}

type Method = (this: unknown, ...args: readonly unknown[]) => unknown;
/** Returns the steps of a call. */
type Cost = (self: unknown, args: readonly unknown[], result: unknown) => number;

const ofSelf: Cost = (self) => sizeOf(self);
const ofResult: Cost = (_self, _args, result) => sizeOf(result);
const ofArgument: Cost = (_self, [argument]) => sizeOf(argument);
/** Cost of a search that ends at the position which it returns. */
const ofSearch: Cost = (self, [, from], result) => {
  const start = typeof from === "number" ? from : 0;
  return (typeof result === "number" && result >= 0 ? result : sizeOf(self)) - start;
};

function countCalls(owner: object, names: readonly string[], cost: Cost): void {
  for (const name of names) {
    const original = Reflect.get(owner, name) as Method;
    const counting: Method = function counting(this: unknown, ...args) {
      const result = Reflect.apply(original, this, args);
      builtInSteps += Math.max(0, cost(this, args, result));
      return result;
    };
    Object.defineProperty(owner, name, { value: counting, configurable: true, writable: true });
  }
}

function countBuiltIns(): void {
  countCalls(Array.prototype, ["indexOf", "lastIndexOf"], ofSearch);
  countCalls(
    Array.prototype,
    ["includes", "join", "reverse", "shift", "unshift", "splice"],
    ofSelf,
  );
  countCalls(
    Array.prototype,
    ["slice", "concat", "flat", "toReversed", "toSorted", "toSpliced", "with"],
    ofResult,
  );
  for (const list of [[], new Map(), new Set()] as const) {
    const iterator: object = Reflect.getPrototypeOf(list[Symbol.iterator]()) ?? {};
    countCalls(iterator, ["next"], () => 1);
  }
  countCalls(Object, ["keys", "values", "entries"], ofResult);
  countCalls(Object, ["fromEntries"], ofArgument);
  countCalls(String.prototype, ["indexOf"], ofSearch);
  countCalls(String.prototype, ["includes", "split", "replace", "replaceAll", "match"], ofSelf);
  countCalls(String.prototype, ["toLowerCase", "toUpperCase", "trim", "repeat"], ofResult);
  countCalls(JSON, ["parse"], ofArgument);
  countCalls(JSON, ["stringify"], ofResult);
  countCalls(Buffer, ["concat", "alloc"], ofResult);
  const bufferMethods = Buffer.prototype as object;
  countCalls(bufferMethods, ["indexOf"], ofSearch);
  countCalls(bufferMethods, ["toString", "equals"], ofSelf);
  countCalls(Uint8Array.prototype, ["set"], ofArgument);
}

interface BlockCounts {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly { readonly ranges: readonly { readonly count: number }[] }[];
  }[];
}

function post(method: string, params: object = {}): object {
  let answer: object = {};
  session.post(method, params, (error, result) => {
    if (error !== null) throw error;
    answer = result ?? {};
  });
  return answer;
}

const OWN_FOLDER = new URL(".", import.meta.url).href;

/** Starts to count. Modules must be loaded afterwards, because V8 counts blocks only of functions that it compiles afterwards. */
export function startCounting(): void {
  post("Profiler.enable");
  post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  countBuiltIns();
}

function sumCounts({ result }: BlockCounts): number {
  let sum = 0;
  for (const { url, functions } of result) {
    if (!url.startsWith("file:") || url.startsWith(OWN_FOLDER)) continue;
    for (const { ranges } of functions) for (const { count } of ranges) sum += count;
  }
  return sum;
}

/** Returns the counted steps since the last call. */
function takeSteps(): number {
  const builtIn = builtInSteps;
  const blocks = sumCounts(post("Profiler.takePreciseCoverage") as BlockCounts);
  builtInSteps = 0;
  return builtIn + blocks;
}

/** Replaces values that JSON lacks. */
function toPrintable(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  return value instanceof Map || value instanceof Set ? [...value] : value;
}

function sizeOfResult(result: unknown): number {
  const text = JSON.stringify(result, toPrintable) as string | undefined;
  return text?.length ?? 0;
}

/** Returns the steps of each call, including the size of its result. */
export async function countSteps(calls: readonly (() => unknown)[]): Promise<readonly number[]> {
  const counts: number[] = [];
  takeSteps();
  for (const call of calls) {
    const result = await call();
    const steps = takeSteps();
    counts.push(steps + sizeOfResult(result));
    builtInSteps = 0;
  }
  return counts;
}
