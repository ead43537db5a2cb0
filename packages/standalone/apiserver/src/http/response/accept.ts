// SPDX-License-Identifier: Apache-2.0
// Chooses the representation of a response from the Accept header. Source: Kubernetes "Alternate representations of resources".
import { StatusError } from "../../meta/status.ts";

export interface Representation {
  readonly format: "json" | "yaml";
  readonly as: "object" | "Table" | "PartialObjectMetadata";
  readonly isPretty: boolean;
}

const SHAPES: Readonly<Record<string, Representation["as"]>> = {
  Table: "Table",
  PartialObjectMetadata: "PartialObjectMetadata",
  PartialObjectMetadataList: "PartialObjectMetadata",
};

const FORMATS: Readonly<Record<string, Representation["format"]>> = {
  "application/json": "json",
  "application/*": "json",
  "*/*": "json",
  "": "json",
  "application/yaml": "yaml",
};

interface MediaRange {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly quality: number;
}

function parseMediaRange(entry: string): MediaRange {
  const [type = "", ...rest] = entry.split(";").map((part) => part.trim());
  const parameters = new Map(
    rest.map((part) => {
      const [key = "", value = ""] = part.split("=");
      return [key.trim(), value.trim()] as const;
    }),
  );
  const quality = Number(parameters.get("q") ?? 1);
  return { type: type.toLowerCase(), parameters, quality: Number.isNaN(quality) ? 0 : quality };
}

function toForm({ type, parameters }: MediaRange): Omit<Representation, "isPretty"> | undefined {
  const requested = parameters.get("as");
  const format = FORMATS[type];
  const as = requested === undefined ? "object" : SHAPES[requested];
  return format === undefined || as === undefined ? undefined : { format, as };
}

function notAcceptable(types: string): StatusError {
  const message = `only the following media types are accepted: ${types}`;
  return new StatusError({ code: 406, reason: "NotAcceptable", message });
}

function choose(accept: string, formats: readonly string[]) {
  return accept
    .split(",")
    .map(parseMediaRange)
    .filter(({ quality }) => quality > 0)
    .sort((left, right) => right.quality - left.quality)
    .map(toForm)
    .find(
      (representation) => representation !== undefined && formats.includes(representation.format),
    );
}

/** Returns whether every representation that the client accepts contains only metadata. */
export function isMetadataOnly(accept: string): boolean {
  return accept
    .split(",")
    .every((entry) => toForm(parseMediaRange(entry))?.as === "PartialObjectMetadata");
}

/** Chooses the preferred representation. Throws a StatusError 406 if no representation is acceptable. */
export function chooseRepresentation(accept: string, isPretty: boolean): Representation {
  const representation = choose(accept, ["json", "yaml"]);
  if (representation === undefined) {
    throw notAcceptable("application/json, application/yaml");
  }
  return { ...representation, isPretty };
}

/** Chooses the JSON representation of a watch. Throws a StatusError 406 if no representation is acceptable. */
export function chooseStream(accept: string): Representation {
  const representation = choose(accept, ["json"]);
  if (representation === undefined) {
    throw notAcceptable("application/json;stream=watch");
  }
  return { ...representation, isPretty: false };
}

/** Returns whether the client wants indented JSON. Source: Kubernetes apiserver isPrettyPrint. */
export function wantsPrettyPrint(query: URLSearchParams, userAgent: string): boolean {
  const requested = query.get("pretty");
  return requested === null || requested === ""
    ? /^(curl|Wget|Mozilla\/5\.0)/.test(userAgent)
    : /^(1|t|true)$/i.test(requested);
}
