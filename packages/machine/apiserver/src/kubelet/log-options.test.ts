// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { logParametersOf } from "./log-options.ts";

const parametersOf = (query: string): string =>
  logParametersOf(new URLSearchParams(query), "p").toString();

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
])("of $query the kubelet gets $want", ({ query, want }) => {
  expect(parametersOf(query)).toBe(want);
});

test.each(["x5", "5x", "1.5", "1234567890123456", "--1", "%205"])(
  "tailLines %s is not a number: 400",
  (text) => {
    expect(() => parametersOf(`tailLines=${text}`)).toThrow(
      expect.objectContaining({ code: 400 }) as Error,
    );
  },
);

test("a text that is not a time is refused with 400", () => {
  expect(() => parametersOf("sinceTime=today")).toThrow(
    expect.objectContaining({ code: 400 }) as Error,
  );
});

test("all options out of range are reported at once", () => {
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
