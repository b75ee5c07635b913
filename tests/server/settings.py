"""What the serve command reads of the project's settings, around the small application."""

from project import env, settings

ALLAUTH_TRUSTED_PROXY_COUNT = settings.ALLAUTH_TRUSTED_PROXY_COUNT
ALLOWED_HOSTS = settings.ALLOWED_HOSTS
BEHIND_TLS_PROXY = settings.BEHIND_TLS_PROXY
DATA_DIR = settings.DATA_DIR
DATABASES = settings.DATABASES
IS_SECURE = settings.IS_SECURE
IS_SQLITE = settings.IS_SQLITE
DEBUG = settings.DEBUG
DRAIN_SECONDS = settings.DRAIN_SECONDS
HOST = settings.HOST
LOGGING = settings.LOGGING
MAX_BODY_BYTES = settings.MAX_BODY_BYTES
MAX_UPLOAD_BYTES = settings.MAX_UPLOAD_BYTES
PORT = settings.PORT
RUNNER = settings.RUNNER
SECRET_KEY = settings.SECRET_KEY
SITE_URL = settings.SITE_URL

# No page is served, so no static files are built.
WHITENOISE_AUTOREFRESH = True
ASGI_APPLICATION = "tests.server.application.application"
# No tables, unless a test asks for some.
INSTALLED_APPS = ["daphne", *env.words("TEST_APPS")]
ROOT_URLCONF = "tests.server.settings"
urlpatterns: list[object] = []
