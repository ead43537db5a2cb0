// SPDX-License-Identifier: Apache-2.0
// What form of answer a client wants. Source: Kubernetes "Alternate representations of resources".
import { StatusError } from "../../meta/status.ts";

/** The form of an answer. */
export interface Representation {
  readonly format: "json" | "yaml";
  /** How objects are shown. */
  readonly as: "object" | "Table" | "PartialObjectMetadata";
  readonly pretty: boolean;
}

const SHOWN: Readonly<Record<string, Representation["as"]>> = {
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

/** One entry of an Accept header. */
interface MediaRange {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  /** 0 to 1; 0 is not wanted at all. */
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

function formOf({ type, parameters }: MediaRange): Omit<Representation, "pretty"> | undefined {
  const asked = parameters.get("as");
  const format = FORMATS[type];
  const as = asked === undefined ? "object" : SHOWN[asked];
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
    .map(formOf)
    .find((form) => form !== undefined && formats.includes(form.format));
}

/** Chooses the form that the client likes most of those that the server has. Throws a StatusError 406 where there is none. */
export function chooseRepresentation(accept: string, pretty: boolean): Representation {
  const form = choose(accept, ["json", "yaml"]);
  if (form === undefined) {
    throw notAcceptable("application/json, application/yaml");
  }
  return { ...form, pretty };
}

/** The same for a stream of events, which only JSON can be. Throws a StatusError 406. */
export function chooseStream(accept: string): Representation {
  const form = choose(accept, ["json"]);
  if (form === undefined) {
    throw notAcceptable("application/json;stream=watch");
  }
  return { ...form, pretty: false };
}

/** Whether people read the answer: they say so, or use a tool of theirs. Source: Kubernetes apiserver isPrettyPrint. */
export function isForPeople(query: URLSearchParams, userAgent: string): boolean {
  const asked = query.get("pretty");
  return asked === null || asked === ""
    ? /^(curl|Wget|Mozilla\/5\.0)/.test(userAgent)
    : /^(1|t|true)$/i.test(asked);
}
