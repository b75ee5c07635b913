"""All settings, read once from the environment; each with its default and one line of explanation."""

import os
from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from project import VERSION as PROJECT_VERSION
from project import databases, env, keys, languages
from project.keys import secrets_of

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = PROJECT_VERSION
_MEBIBYTE = 1024 * 1024
_DAY_SECONDS = 24 * 3600
# A century: with larger numbers dates end.
_MOST_DAYS = 36_500

# --- where things lie ----------------------------------------------------------

# Database, keys and lock file of an embedded installation; nobody else may read it.
DATA_DIR = env.folder(
    "DATA_DIR",
    BASE_DIR / "data",
    files={
        "secret-key": os.R_OK,
        "encryption-key": os.R_OK,
        "server.lock": os.R_OK | os.W_OK,
        "tributary.sqlite3": os.R_OK | os.W_OK,
    },
)

# --- keys ----------------------------------------------------------------------

# From the environment, or made at first start in DATA_DIR (mode 0600).
SECRET_KEY = env.text("SECRET_KEY") or keys.secret_key(DATA_DIR)
# Older ones, whose sessions and links are still good, separated by commas.
SECRET_KEY_FALLBACKS = env.words("SECRET_KEY_FALLBACKS")
# Fernet keys for upstream credentials, newest first, separated by commas.
ENCRYPTION_KEYS = keys.checked(
    "ENCRYPTION_KEYS", env.words("ENCRYPTION_KEYS") or keys.encryption_keys(DATA_DIR)
)

# --- how we are reached ----------------------------------------------------------

DEBUG = env.flag("DEBUG", False)
# Interface and port of `manage.py serve`.
HOST = env.text("HOST") or "127.0.0.1"
PORT = env.port("PORT", 8000)
# Address that people use; absolute links (invitations) are built from it, never from Host.
SITE_URL = env.origin(
    "SITE_URL", env.text("SITE_URL") or f"http://{env.name_of_interface(HOST)}:{PORT}"
)
# Names under which requests may ask for us; others are refused. `SITE_URL`'s own is one of them.
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS") or [
    *dict.fromkeys(["localhost", "127.0.0.1", "[::1]", *filter(None, [env.host_of(SITE_URL)])])
]
CSRF_TRUSTED_ORIGINS = env.origins("CSRF_TRUSTED_ORIGINS", SITE_URL)
# Pages of these origins may open the live websocket. On one's own machine both names are used.
LIVE_ORIGINS = env.origins("LIVE_ORIGINS") or [
    *CSRF_TRUSTED_ORIGINS,
    *(
        [f"http://{name}:{PORT}" for name in ("localhost", "127.0.0.1")]
        if HOST == "127.0.0.1"
        else []
    ),
]
# Set where a proxy that we trust terminates TLS and overwrites X-Forwarded-Proto.
BEHIND_TLS_PROXY = env.flag("BEHIND_TLS_PROXY", False)
if BEHIND_TLS_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# How many proxies of ours append to X-Forwarded-For. The limits on signing in count addresses:
# with 0 the header is not believed, and behind a proxy everybody shares the proxy's limit.
ALLAUTH_TRUSTED_PROXY_COUNT = int(env.number("TRUSTED_PROXY_COUNT", 0))
IS_SECURE = SITE_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_SECURE
if IS_SECURE:
    # Browsers take these names from this host alone, over TLS: no neighbour can plant them.
    SESSION_COOKIE_NAME = "__Host-sessionid"
    CSRF_COOKIE_NAME = "__Host-csrftoken"
# Browsers that were here once do not try without TLS. 0 switches it off.
SECURE_HSTS_SECONDS = int(env.number("HSTS_SECONDS", 30 * 24 * 3600)) if IS_SECURE else 0
SESSION_ENGINE = "project.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# --- the application -------------------------------------------------------------

INSTALLED_APPS = [
    "daphne",
    "chat.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_htmx",
    "allauth",
    "allauth.account",
    "chat.apps.ChatConfig",
]
MIDDLEWARE = [
    "project.headers.permissions_policy",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "chat.web.views.DatabaseUnavailable",
]
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "chat.web.template_loader.Loader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": [
                "django.templatetags.i18n",
                "django.templatetags.static",
                "chat.web.tags",
                "chat.web.components",
                "chat.accounts.tags",
                "chat.conversations.tags",
                "chat.public_api.tags",
            ],
        },
    },
]

# --- content security --------------------------------------------------------------

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "media-src": [SELF],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    },
}

# --- records -------------------------------------------------------------------------

# SQLite in DATA_DIR, or postgres://user:password@host/name.
DATABASE_URL = env.address(
    "DATABASE_URL",
    f"sqlite:///{DATA_DIR / 'tributary.sqlite3'}",
    schemes=("sqlite", "postgres", "postgresql"),
)
DATABASE_PREPARED = env.flag("DATABASE_PREPARED", True)
DATABASES = {
    "default": databases.configured(
        DATABASE_URL,
        is_prepared=DATABASE_PREPARED,
        pool_size=int(env.number("DATABASE_POOL", 20, at_least=databases.POOL_KEPT)),
    )
}
# How long a page waits for answers of PostgreSQL, all of its statements together; then it is a 503.
DATABASE_WAIT_SECONDS = env.number("DATABASE_WAIT_SECONDS", 5, at_least=0.1)
IS_SQLITE = databases.is_sqlite(DATABASES["default"])
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Empty: notifications and recent events stay in memory (one process).
REDIS_URL = env.address("REDIS_URL", schemes=("redis", "rediss", "unix"))

# What the limits on signing in remember, together for all processes: in Redis, else in the
# database. With SQLite there is one process, and it remembers by itself. Django's own bound of 300
# entries would let a guesser push out the count of one account by trying others.
CACHES: dict[str, dict[str, object]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}
if REDIS_URL:
    CACHES["default"] = {
        "BACKEND": "project.cache.SharedCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "tributary",
    }
elif not IS_SQLITE:
    CACHES["default"] |= {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "chat_cache",
    }

# --- processes -------------------------------------------------------------------------

# "embedded": the server process executes the runs. "external": `manage.py runner` does.
RUNNER = env.text("RUNNER", "embedded")
# Not named "default": of that each live connection would get a channel, which nobody uses, and
# with Redis a subscription, without which it is refused.
CHANNEL_LAYERS = {
    "notifications": (
        {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL]},
        }
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    )
}
# Requests for pages that one process handles at the same time; further ones wait. More would share
# one processor with each other and with every live connection, and take a database connection each.
MAX_CONCURRENT_REQUESTS = int(env.number("MAX_CONCURRENT_REQUESTS", 4, at_least=1))
# These do not wait behind pages, because every second of an answer that somebody stops costs money.
# Only fast views belong here.
PRIORITY_URLS = r"/r/[0-9a-f-]{36}/stop/"
# Address of a runner's own `/healthz`, `/readyz` and `/metrics`; port 0 switches them off.
RUNNER_HOST = env.text("RUNNER_HOST", "127.0.0.1")
RUNNER_PORT = env.port("RUNNER_PORT", 0)
# Streams that one runner carries; further runs wait for another one.
RUNNER_CAPACITY = int(env.number("RUNNER_CAPACITY", 500, at_least=1))
# What all runs of a runner may hold in memory while the database is away; then they stop reading.
PENDING_BYTES = int(env.number("PENDING_BYTES", 256 * 1024 * 1024, at_least=_MEBIBYTE))
# How long a runner that was told to stop lets its runs go on, before it interrupts them.
DRAIN_SECONDS = env.number("DRAIN_SECONDS", 10)
# A runner whose heartbeat is older than this is lost; its runs are interrupted. It beats six times
# in it; below two seconds a busy machine would lose runners that live.
LEASE_SECONDS = env.number("LEASE_SECONDS", 30, at_least=2, at_most=_DAY_SECONDS)

# --- upstreams ---------------------------------------------------------------------------

# "wire" is our own transport; "stock" is httpx's, and serves egress proxies.
UPSTREAM_TRANSPORT = env.choice("UPSTREAM_TRANSPORT", "wire", ("wire", "stock"))
# Loopback and private networks are where LM Studio lives; a deployment lists what it allows
# as "network:port", separated by commas ("10.0.0.0/8:1234,192.168.1.5:*"). "any" allows all.
UPSTREAM_PRIVATE_NETWORKS = env.text(
    "UPSTREAM_PRIVATE_NETWORKS", "any" if RUNNER == "embedded" else ""
)
# Loopback ports of this installation itself: no upstream may lie there, whatever is allowed.
OWN_PORTS = [
    port for port in (PORT, RUNNER_PORT, env.port_of(DATABASE_URL), env.port_of(REDIS_URL)) if port
]
# Egress proxy for the stock transport; the usual environment variables are not read.
UPSTREAM_PROXY = env.text("UPSTREAM_PROXY")
if UPSTREAM_PROXY and UPSTREAM_TRANSPORT != "stock":
    raise ImproperlyConfigured("UPSTREAM_PROXY needs UPSTREAM_TRANSPORT=stock")
UPSTREAM_CONNECT_SECONDS = env.number("UPSTREAM_CONNECT_SECONDS", 10, at_least=0.1)
# Until the head of the answer: a server may load a model first.
UPSTREAM_HEAD_SECONDS = env.number("UPSTREAM_HEAD_SECONDS", 900, at_least=0.1)
# Without a byte: the connection is dead. Without an event, comments aside: so is the answer.
UPSTREAM_IDLE_SECONDS = env.number("UPSTREAM_IDLE_SECONDS", 120, at_least=0.1)
UPSTREAM_QUIET_SECONDS = env.number("UPSTREAM_QUIET_SECONDS", 600, at_least=0.1)
# A whole run.
RUN_SECONDS = env.number("RUN_SECONDS", 3600, at_least=0.1)
RUN_BYTES = int(env.number("RUN_BYTES", 64 * 1024 * 1024, at_least=1024))
# Files of a mockup that are fetched, one of them, all of one version, and the time for one.
MOCKUP_FILES = int(env.number("MOCKUP_FILES", 200))
MOCKUP_FILE_BYTES = int(env.number("MOCKUP_FILE_BYTES", 4 * 1024 * 1024))
MOCKUP_BUNDLE_BYTES = int(env.number("MOCKUP_BUNDLE_BYTES", 32 * 1024 * 1024))
MOCKUP_FETCH_SECONDS = env.number("MOCKUP_FETCH_SECONDS", 30, at_least=0.1)
# Address of the demo upstream that `make run` starts; empty hides it.
DEMO_UPSTREAM_URL = env.text("DEMO_UPSTREAM_URL")
# HTML of ended answers that a process keeps for the next page that shows them.
ANSWER_CACHE_MB = env.number("ANSWER_CACHE_MB", 32)
# Days for which the raw frames of a run are kept beside its events.
RAW_FRAMES_DAYS = env.number("RAW_FRAMES_DAYS", 30, at_most=_MOST_DAYS)

# --- people ------------------------------------------------------------------------------

AUTH_USER_MODEL = "chat.User"
AUTHENTICATION_BACKENDS = ["project.sessions.Backend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
ACCOUNT_ADAPTER = "chat.accounts.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_PREVENT_ENUMERATION = True
# No mail to addresses that have no account here.
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
# allauth would begin each subject with the request's host, which the sender of the request chooses.
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
# Reset links die with any change of the person's rights, and after a day.
ACCOUNT_PASSWORD_RESET_TOKEN_GENERATOR = "chat.accounts.adapter.ResetTokenGenerator"  # noqa: S105
PASSWORD_RESET_TIMEOUT = int(env.number("PASSWORD_RESET_SECONDS", _DAY_SECONDS, at_least=60))
CSRF_FAILURE_VIEW = "chat.web.views.csrf_failed"
# Mail goes out only where a server is set; else reset links are made by an administrator.
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_BACKEND = (
    "django.core.mail.backends.smtp.EmailBackend"
    if EMAIL_HOST
    else "django.core.mail.backends.dummy.EmailBackend"
)
INVITATION_DAYS = env.number("INVITATION_DAYS", 7, at_least=0.01, at_most=_MOST_DAYS)

# --- files, time, language ------------------------------------------------------------------

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = DATA_DIR / "static"
STATIC_ROOT.mkdir(exist_ok=True)
# Served straight from the source tree: no collect step stands between a clone and its first page.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "chat.core.static_files.MarkedStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
# One language for the installation: everybody in a room sees the same rendered answer. English is
# in the source; others are folders of locale/, or of DATA_DIR/locale for wording of one's own.
LOCALE_PATHS = [DATA_DIR / "locale", BASE_DIR / "locale"]
LANGUAGES = [("en", "English"), *languages.installed(LOCALE_PATHS)]
LANGUAGE_CODE = env.choice("INTERFACE_LANGUAGE", "en", tuple(code for code, _ in LANGUAGES))
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
USE_TZ = True
USE_I18N = True
FORMAT_MODULE_PATH = "project.formats"

# --- limits ------------------------------------------------------------------------------------

# A form; larger bodies are refused before they are read.
MAX_BODY_BYTES = int(env.number("MAX_BODY_BYTES", 2 * 1024 * 1024))
# A message with its pictures, at the addresses that take some.
MAX_UPLOAD_BYTES = int(env.number("MAX_UPLOAD_BYTES", 20 * 1024 * 1024))
# One picture, and how many a message may have; what a browser has to unpack to show one.
PICTURE_BYTES = int(env.number("PICTURE_BYTES", 5 * 1024 * 1024))
PICTURES_PER_MESSAGE = int(env.number("PICTURES_PER_MESSAGE", 8))
PICTURE_PIXELS = int(env.number("PICTURE_PIXELS", 50_000_000))
# A picture that stands in an answer as an address is fetched by this server when somebody wants to
# see it: how long that may take, how many of them one person gets a minute, and private addresses
# that are asked all the same (as in UPSTREAM_PRIVATE_NETWORKS; an answer names them, not a person).
PICTURE_FETCH_SECONDS = env.number("PICTURE_FETCH_SECONDS", 15, at_least=0.1)
PICTURES_PER_MINUTE = int(env.number("PICTURES_PER_MINUTE", 20))
PICTURE_PRIVATE_NETWORKS = env.text("PICTURE_PRIVATE_NETWORKS", "")
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
# Websockets and streams that one person may hold open at each process; a tab needs one.
CONNECTIONS_PER_PERSON = int(env.number("CONNECTIONS_PER_PERSON", 200, at_least=1))
# Answers that one person may have under way and in line together.
RUNS_PER_PERSON = int(env.number("RUNS_PER_PERSON", 100, at_least=1))
# What a person gives as the result of a tool, or writes in reply to a question, in UTF-8.
TOOL_RESULT_BYTES = int(env.number("TOOL_RESULT_BYTES", 512 * 1024))
# Whoever says "I'll answer this" has it for so long; then the others may, too.
CLAIM_SECONDS = env.number("CLAIM_SECONDS", 120, at_least=1, at_most=_DAY_SECONDS)

# --- who may read the figures ---------------------------------------------------------------------

# `/metrics`, and `/readyz` in detail, answer administrators, these addresses, and whoever has the
# token. With a proxy of ours in front, TRUSTED_PROXY_COUNT tells whose address counts.
METRICS_NETWORKS = env.networks("METRICS_NETWORKS", "127.0.0.1/32,::1/128")
METRICS_TOKEN = env.text("METRICS_TOKEN")

# --- logs -----------------------------------------------------------------------------------------

LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))
# "line" for people, "json" for collectors.
LOG_FORMAT = env.choice("LOG_FORMAT", "line", ("line", "json"))
# What both forms have in common: none of these, and texts of all exceptions only when debugging.
_DISCREET = {
    "secrets": secrets_of(
        *(DATABASE_URL, REDIS_URL, UPSTREAM_PROXY, METRICS_TOKEN),
        *(SECRET_KEY, *SECRET_KEY_FALLBACKS, *ENCRYPTION_KEYS),
    ),
    "with_texts": DEBUG,
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "project.logs.LineFormatter",
            "fmt": "{asctime} {levelname} {name} {message}",
            "style": "{",
            **_DISCREET,
        },
        "json": {"()": "project.logs.JsonFormatter", **_DISCREET},
    },
    "filters": {"counted": {"()": "project.logs.Counted"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["counted"],
        }
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # One line per request and per frame is noise; errors still pass.
        "daphne": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        # A Redis that is away is said once, by whoever needs it; this library says it each second.
        "channels_redis": {"level": "CRITICAL"},
        "django.server": {"level": "WARNING"},
        # Any stranger may ask for another name, and is told 400; forty lines of ours each time, no.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        # A line for each block of each frame.
        "markdown_it": {"level": "INFO"},
        # With DEBUG it would be every statement with its values: prompts and answers among them.
        "django.db.backends": {"level": "INFO"},
    },
}
