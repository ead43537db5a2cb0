// SPDX-License-Identifier: Apache-2.0
// What is asked of a kubelet, and what is refused before.
import { describe, expect, test } from "vitest";
import { StatusError } from "../meta/status.ts";
import type { KubeObject } from "../objects/object.ts";
import {
  chooseContainer,
  toConnectOptions,
  toExecParameters,
  toLogParameters,
} from "./parameters.ts";

function refusal(ask: () => unknown): readonly [number, string] | undefined {
  try {
    ask();
    return undefined;
  } catch (error) {
    return error instanceof StatusError ? [error.code, error.message] : undefined;
  }
}

describe("log parameters", () => {
  test.each([
    { query: "", want: "" },
    { query: "container=c&follow=true&tailLines=5&unknown=x", want: "follow=true&tailLines=5" },
    { query: "follow=false&previous=0&timestamps", want: "timestamps=true" },
    {
      query: "sinceTime=2026-11-22T09%3A00%3A00Z&limitBytes=1",
      want: "limitBytes=1&sinceTime=2026-11-22T09%3A00%3A00Z",
    },
  ])("are accepted in $query", ({ query, want }) => {
    expect(toLogParameters(new URLSearchParams(query), "p").toString()).toBe(want);
  });

  test.each([
    ["tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"],
    ["limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"],
    ["sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"],
    ["tailLines=x", 400, "strconv.ParseInt"],
    ["sinceTime=now", 400, "parsing time"],
    ["sinceTime=2026-11-22T09:00:00Z&sinceSeconds=5", 422, "at most one of"],
  ])("are rejected for %s", (query, code, text) => {
    const refused = refusal(() => toLogParameters(new URLSearchParams(query), "p"));
    expect(refused).toEqual([code, expect.stringContaining(text)]);
  });
});

test("forwards exec parameters to the kubelet in its own format", () => {
  const query = new URLSearchParams("command=sh&command=-c&command=a%26b&stdin=true&tty=1&x=y");
  expect(toExecParameters(query).toString()).toBe(
    "command=sh&command=-c&command=a%26b&input=1&tty=1",
  );
  expect(toConnectOptions(new URLSearchParams("container=c&stdout=true&command=ls"))).toEqual({
    container: "c",
    stdout: true,
    command: ["ls"],
  });
});

describe("selection of a container", () => {
  const podOf = (containers: readonly string[], initial: readonly string[] = []): KubeObject => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p" },
    spec: {
      containers: containers.map((name) => ({ name })),
      initContainers: initial.map((name) => ({ name })),
    },
  });

  test.each([
    { pod: podOf(["a"]), asked: "", want: "a" },
    { pod: podOf(["a", "b"]), asked: "b", want: "b" },
    { pod: podOf(["a"], ["i"]), asked: "i", want: "i" },
  ])("finds $want", ({ pod, asked, want }) => {
    expect(chooseContainer(pod, asked)).toBe(want);
  });

  test.each([
    [podOf(["a", "b"]), "", "a container name must be specified for pod p, choose one of: [a b]"],
    [
      podOf(["a", "b"], ["i"]),
      "",
      "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]",
    ],
    [podOf(["a"]), "x", "container x is not valid for pod p"],
  ])("rejects an ambiguous or unknown name", (pod, asked, message) => {
    expect(refusal(() => chooseContainer(pod, asked))).toEqual([400, message]);
  });
});

const parametersOf = (query: string): string =>
  toLogParameters(new URLSearchParams(query), "p").toString();

test.each([
  { query: "", want: "" },
  { query: "follow", want: "follow=true" },
  {
    query: "follow=1&previous=yes&timestamps=TRUE",
    want: "follow=true&previous=true&timestamps=true",
  },
  { query: "follow=false&previous=0&timestamps=False", want: "" },
  {
    query: "follow=falsehood&previous=00&timestamps=not-false",
    want: "follow=true&previous=true&timestamps=true",
  },
  {
    query: "tailLines=0&limitBytes=1&sinceSeconds=1",
    want: "tailLines=0&limitBytes=1&sinceSeconds=1",
  },
  { query: "tailLines=&sinceTime=&container=c", want: "" },
  { query: "tailLines=123456789012345", want: "tailLines=123456789012345" },
  {
    query: "sinceTime=2026-01-01T00:00:00Z&sinceSeconds=",
    want: "sinceTime=2026-01-01T00%3A00%3A00Z",
  },
])("sends $want to the kubelet for $query", ({ query, want }) => {
  expect(parametersOf(query)).toBe(want);
});

test.each(["x5", "5x", "1.5", "1234567890123456", "--1", "%205"])(
  "rejects tailLines %s with 400",
  (text) => {
    expect(() => parametersOf(`tailLines=${text}`)).toThrow(
      expect.objectContaining({ code: 400 }) as Error,
    );
  },
);

test("rejects an invalid sinceTime with 400", () => {
  expect(() => parametersOf("sinceTime=today")).toThrow(
    expect.objectContaining({ code: 400 }) as Error,
  );
});

test("reports all out-of-range options at once", () => {
  const query = "tailLines=-1&limitBytes=0&sinceSeconds=0&sinceTime=2026-01-01T00:00:00Z";
  expect(() => parametersOf(query)).toThrow(
    expect.objectContaining({
      code: 422,
      details: expect.objectContaining({
        name: "p",
        causes: [
          { field: "tailLines", message: "must be greater than or equal to 0" },
          { field: "limitBytes", message: "must be greater than 0" },
          { field: "sinceSeconds", message: "must be greater than 0" },
          { field: "", message: "at most one of" },
        ].map(({ field, message }): unknown =>
          expect.objectContaining({
            field,
            message: expect.stringContaining(message) as string,
          }),
        ),
      }) as object,
    }) as Error,
  );
});
