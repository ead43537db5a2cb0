// SPDX-License-Identifier: Apache-2.0
// Forms of answers that clients accept.
import { describe, expect, test } from "vitest";
import { chooseRepresentation, chooseStream, isMetadataOnly, wantsPrettyPrint } from "./accept.ts";

const JSON_OBJECT = { format: "json", as: "object" };
const YAML_OBJECT = { format: "yaml", as: "object" };
const JSON_TABLE = { format: "json", as: "Table" };
const JSON_PARTIAL = { format: "json", as: "PartialObjectMetadata" };

test.each([
  { accept: "", want: JSON_OBJECT },
  { accept: "*/*", want: JSON_OBJECT },
  { accept: "application/*", want: JSON_OBJECT },
  { accept: "APPLICATION/JSON", want: JSON_OBJECT },
  { accept: "application/yaml", want: YAML_OBJECT },
  { accept: "application/json;as=Table;v=v1;g=meta.k8s.io", want: JSON_TABLE },
  { accept: "application/json; as = Table , application/json", want: JSON_TABLE },
  { accept: "application/json;as=PartialObjectMetadata", want: JSON_PARTIAL },
  { accept: "application/json;as=PartialObjectMetadataList", want: JSON_PARTIAL },
  { accept: "application/json;as=Other,application/yaml", want: YAML_OBJECT },
  { accept: "text/html,application/yaml", want: YAML_OBJECT },
  { accept: "application/yaml,application/json", want: YAML_OBJECT },
  { accept: "application/yaml;q=0.5,application/json", want: JSON_OBJECT },
  { accept: "application/yaml;q=0.5,application/json;q=0.6,text/html", want: JSON_OBJECT },
  { accept: "application/json;q=0,application/yaml;q=0.1", want: YAML_OBJECT },
  { accept: "application/json;q=much,application/yaml;q=0.1", want: YAML_OBJECT },
])("'$accept' is answered with $want.format $want.as", ({ accept, want }) => {
  expect(chooseRepresentation(accept, true)).toEqual({ ...want, isPretty: true });
});

test.each(["text/html", "application/json;q=0", "application/json;as=Other"])(
  "rejects %s as not acceptable",
  (accept) => {
    expect(() => chooseRepresentation(accept, false)).toThrow(
      "only the following media types are accepted: application/json, application/yaml",
    );
  },
);

test.each([
  { accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", want: true },
  { accept: "application/yaml;as=PartialObjectMetadataList", want: true },
  { accept: "application/json;as=PartialObjectMetadata,application/json", want: false },
  { accept: "application/json,application/json;as=PartialObjectMetadata;q=0.1", want: false },
  { accept: "application/json;as=Table", want: false },
  { accept: "", want: false },
])("'$accept' is answered with metadata only: $want", ({ accept, want }) => {
  expect(isMetadataOnly(accept)).toBe(want);
});

describe("a watch stream", () => {
  test.each([
    { accept: "application/yaml,application/json;as=Table", want: JSON_TABLE },
    { accept: "", want: JSON_OBJECT },
  ])("for '$accept' is JSON", ({ accept, want }) => {
    expect(chooseStream(accept)).toEqual({ ...want, isPretty: false });
  });

  test("is never YAML", () => {
    expect(() => chooseStream("application/yaml")).toThrow("application/json;stream=watch");
  });
});

test.each([
  { query: "", userAgent: "curl/8.0", want: true },
  { query: "", userAgent: "Wget/1.2", want: true },
  { query: "", userAgent: "Mozilla/5.0 (X11)", want: true },
  { query: "", userAgent: "Mozilla/4.0", want: false },
  { query: "", userAgent: "Mozilla/5x0", want: false },
  { query: "", userAgent: "kubectl/1.32 curl", want: false },
  { query: "pretty=", userAgent: "curl/8.0", want: true },
  { query: "pretty=1", userAgent: "", want: true },
  { query: "pretty=T", userAgent: "", want: true },
  { query: "pretty=true", userAgent: "", want: true },
  { query: "pretty=11", userAgent: "curl/8.0", want: false },
  { query: "pretty=untrue", userAgent: "curl/8.0", want: false },
  { query: "pretty=false", userAgent: "curl/8.0", want: false },
])("pretty-prints for '$query' by '$userAgent': $want", ({ query, userAgent, want }) => {
  expect(wantsPrettyPrint(new URLSearchParams(query), userAgent)).toBe(want);
});
