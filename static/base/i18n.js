/* Texts in the language of the page, and numbers, times and durations as that language writes them.
   The catalogue is Django's (domain `djangojs`), in the page as JSON; without one, which is the case
   for English, the texts are those in the scripts. */

const language = document.documentElement.lang || undefined;
const place = document.getElementById("script-messages");
const { catalog } = place ? JSON.parse(place.textContent) : { catalog: {} };
const formsOf = entry => (Array.isArray(entry) ? entry : [entry]);
export const gettext = text => formsOf(catalog[text])[0] ?? text;

/* With `count` in place of `%(count)s`. */
export function ngettext(singular, plural, count) {
  const forms = formsOf(catalog[singular] ?? [singular, plural]);
  return interpolate(forms[Math.min(formIndex(count), forms.length - 1)], { count: number(count) });
}

/* `text` with each `%(name)s` replaced. */
export const interpolate = (text, values) => text.replace(/%\((\w+)\)s/g, (_, name) => String(values[name]));

// The catalogue has its rule as an expression in C, which our policy allows no script to evaluate.
// `Intl` knows the same forms, and gettext names them in this order.
const ORDER = ["zero", "one", "two", "few", "many", "other"];
const rules = new Intl.PluralRules(language);
const categories = ORDER.filter(form => rules.resolvedOptions().pluralCategories.includes(form));
const formIndex = count => categories.indexOf(rules.select(count));
const formats = new Map();

export function number(value, options = {}) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(language, options));
  return formats.get(key).format(value);
}

// As vendors write it: 32768 is 32K, 128000 is 128K, 1048576 is 1M. What is part of a limit is written in its units.
// `tokens_in_words` of chat/web/model_facts.py does the same.
export function tokens(count, limit = count) {
  const unit = limit % 1000 && limit % 1024 === 0 ? 1024 : 1000;
  const [letter, size] = count >= unit ** 2 ? ["M", unit ** 2] : count >= unit ? ["K", unit] : ["", 1];
  return number(count / size, { maximumSignificantDigits: 3, useGrouping: false }) + letter;
}

export const percent = value => number(value / 100, { style: "percent" });
export const milliseconds = value => number(Math.round(value), { style: "unit", unit: "millisecond" });
export const megabytes = bytes => number(Math.round(bytes / 1024 ** 2), { style: "unit", unit: "megabyte" });

// In the words of the server (chat.rendering.figures), which a page shows before its script counts on.
export const seconds = (value, digits = 0) => interpolate(gettext("%(seconds)s s"), {
  seconds: number(value, { minimumFractionDigits: digits, maximumFractionDigits: digits }),
});

export function elapsed(ms) {
  const whole = Math.floor(ms / 1000);
  if (whole < 60) return seconds(whole);
  const values = { minutes: number(Math.floor(whole / 60)), seconds: number(whole % 60) };
  return interpolate(gettext("%(minutes)s min %(seconds)s s"), values);
}

/* `style` as in chat.web.tags.when: "moment", "date", "full". */
const STYLES = {
  moment: { hour: "numeric", minute: "2-digit" },
  date: {},
  full: { hour: "numeric", minute: "2-digit", timeZoneName: "short" },
};

/* The zone that the person chose, if this browser knows it, or that of the browser. */
function zoneOf(timeZone) {
  try {
    return new Intl.DateTimeFormat(language, { timeZone }).resolvedOptions().timeZone;
  } catch {
    return zoneOf();
  }
}

export const timeZone = zoneOf(document.documentElement.dataset.timeZone);
const exact = new Intl.DateTimeFormat(language, { dateStyle: "long", timeStyle: "long", timeZone });
export const exactTime = date => exact.format(date);

export function time(date, style) {
  const key = `${style} ${date.getFullYear() === new Date().getFullYear()}`;
  if (!formats.has(key)) {
    const year = key.endsWith("true") ? {} : { year: "numeric" };
    const options = { month: "short", day: "numeric", timeZone, ...year, ...STYLES[style] };
    formats.set(key, new Intl.DateTimeFormat(language, options));
  }
  return formats.get(key).format(date);
}
